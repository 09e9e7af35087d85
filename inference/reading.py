"""Prepare samples for a network: fill pixels without data, resize, pad by reflection, and check values."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from configs.data_facts import DataFacts
from data.batch import DataError, Sample
from data.conditioning import ValueRange
from data.files.image_files import seen_in
from data.files.stored_image import large_array, large_copy
from data.files.tiff_tags import TIFF_SUFFIXES, file_tags
from data.folder import File
from data.layout import Layout
from data.preprocessing import Placement, Preprocessing, filled, missing_pixels, place
from inference.tiling import Window
from utils.distributed import World
from utils.log import logger
from utils.mapped_memory import strips
from utils.pictures import means_of_squares
from utils.text import counted, exact

_MOST_PADDED = 2**20  # pixels; any image can be padded to this size
_MOST_TIMES = 64  # beyond `_MOST_PADDED`, padding multiplies the number of pixels by at most this factor
_REDUCED = 2**21  # pixels; a reduced image has at most four times this number
_MUCH_OUTSIDE = 0.5  # largest share of an image's values outside the training range
_NARROW = 0.01  # smallest span of an image's values, as a share of the training range
_HIGHEST = 99.9  # percentile that counts as the maximum
_TIMES = 6.0  # largest ratio of two maxima in the same unit; other units differ by a factor of 10 or more
_MAX_PIXELS = 2**16  # number of pixels to compute the percentile from
_RESULTS = {torch.float32: float("nan"), torch.int16: -32768.0}  # value of pixels without data; other dtypes: 0


@dataclass(frozen=True)
class NoData:
    """The pixels of a translation that have no data in the source.

    value: Value of these pixels in the translation.
    missing: (H, W) bool, True for source pixels without data. None if all source pixels have data.
    """

    value: float
    missing: Tensor | None

    def marked(self, image: Tensor) -> Tensor:
        """Return a (C, H, W) translation with `value` in pixels without data. `image` and `missing` can differ in size.

        Integers that equal `value` by chance are changed by one level, as GDAL does.
        """
        result, sides = large_copy(image.numpy()), image.shape[1:]
        is_integer = result.dtype.kind != "f"
        is_largest = is_integer and self.value == np.iinfo(result.dtype).max
        for rows in strips(*sides):
            part = result[:, rows]
            if is_integer:
                part[part == self.value] = self.value + (-1 if is_largest else 1)
            if self.missing is not None:
                own = self.missing.shape
                nearest, columns = (torch.arange(new) * old // new for old, new in zip(own, sides, strict=True))
                part[:, self.missing[nearest[rows, None], columns].numpy()] = self.value
        return torch.from_numpy(result)


@dataclass(frozen=True)
class NoDataRule:
    """Finds and fills pixels without data in sources.

    value: Value of --nodata. None: the value in the tags of each TIFF. NaN and infinity always mean no data.
    images: Name of the map that holds images, "source" or "source_images". None if sources are only label maps.
    source_range: Value range of the sources, or None for 8-bit RGB.
    result_dtype: Dtype of the translations.
    """

    value: float | None = None
    images: str | None = None
    source_range: ValueRange | None = None
    result_dtype: torch.dtype = torch.uint8

    @classmethod
    def of(cls, facts: DataFacts, value: float | None) -> Self:
        """Return the rule for a data set. value: Value of --nodata, or None."""
        dtype = torch.uint8 if facts.conditioning.target_is_rgb else facts.target_dtype
        images = facts.source_images if facts.has_source_images else None
        return cls(value, images, facts.ranges.get(facts.source_images), dtype)

    def fill(self, sample: Sample, files: Mapping[str, File]) -> tuple[Sample, NoData | None]:
        """Fill the pixels without data. Return the new sample and `NoData` for its translation.

        `NoData` is None if all pixels have data, and neither --nodata nor the source sets a value for missing data.

        files: Files of the sample by type of map.
        """
        if self.images is None:
            return sample, None
        file = files.get("source" if self.images == "source" else "source_2")
        value = file_tags(file).no_data if self.value is None else self.value
        image = sample.maps[self.images]
        height, width = image.shape[1:]
        low, high = (self.source_range.low, self.source_range.high) if self.source_range else ((0.0,), (255.0,))
        middle = ((torch.tensor(low) + torch.tensor(high)) / 2)[:, None, None]
        mask, result = None, image.numpy()
        for rows in strips(height, width):
            if (missing := missing_pixels(image[:, rows], value)) is None:
                continue
            if mask is None:
                mask, result = large_array((height, width), bool), large_copy(result)
                mask[:] = False
            mask[rows] = missing.numpy()
            result[:, rows] = filled(image[:, rows], missing, middle).numpy()
        if mask is None:
            return sample, None if value is None else NoData(self._result_value(value), None)
        maps: dict[str, Any] = {self.images: torch.from_numpy(result)}
        return replace(sample, **maps), NoData(self._result_value(value), torch.from_numpy(mask))

    def _result_value(self, value: float | None) -> float:
        """Return the value for missing data in translations: `value`, or a default if `result_dtype` cannot hold it."""
        if value is not None:
            dtype = self.result_dtype
            bounds = None if dtype.is_floating_point else torch.iinfo(dtype)
            if bounds is None or (bounds.min <= value <= bounds.max and value == int(value)):
                return value
        return _RESULTS.get(self.result_dtype, 0.0)


@dataclass(frozen=True)
class PaddedSample:
    """A sample and its padded copy for the network.

    window: Part of the padded copy's translation that is not padding.
    no_data: Pixels of the translation without data, or None.
    """

    sample: Sample
    padded: Sample
    window: Window
    no_data: NoData | None = None


@contextmanager
def collected(problems: list[str]) -> Iterator[None]:
    """Catch a DataError and append its messages to `problems`."""
    try:
        yield
    except DataError as error:
        problems += error.problems


def read_padded(
    layout: Layout,
    preprocessing: Preprocessing,
    index: int,
    *,
    keeps_size: bool,
    no_data: NoDataRule = NoDataRule(),
) -> PaddedSample:
    """Read sample `index`, fill pixels without data, then resize and pad. Raise DataError if this is impossible."""
    sample, marks = no_data.fill(layout.read(index), layout.provenance(index).files)
    result = fitted(sample, preprocessing, keeps_size=keeps_size, source_is_ids=layout.n_classes > 0)
    if marks and marks.missing is not None and marks.missing.shape != result.sample.source.shape[-2:]:
        as_ids = Sample(sample.name, source=marks.missing[None].int())
        placed = place(as_ids, preprocessing.fixed(as_ids), source_is_ids=True)
        marks = replace(marks, missing=placed.source[0].bool())
    return replace(result, no_data=marks)


def fitted(sample: Sample, preprocessing: Preprocessing, *, keeps_size: bool, source_is_ids: bool) -> PaddedSample:
    """Return a padded sample, resized by `preprocessing` unless `keeps_size` is set. Raise the errors of `padded`."""
    # copy large non-contiguous images to memory-mapped files, because the next steps would copy them into memory
    sample = sample.mapped(lambda x: x if x.is_contiguous() else torch.from_numpy(large_copy(x.numpy())))
    height, width = sample.source.shape[-2:]
    own_size = Placement(height, width, 0, 0, height, width, flip=False, target_scale=preprocessing.target_scale)
    placement = own_size if keeps_size else preprocessing.fixed(sample)
    return padded(place(sample, placement, source_is_ids=source_is_ids), preprocessing)


def padded(sample: Sample, rule: Preprocessing) -> PaddedSample:
    """Pad a sample to sides that are multiples of `rule.size_multiple` and at least `rule.min_size`.

    Reflect all maps at their borders, repeatedly for small samples. If a side has 1 pixel, repeat this pixel. If source
    and target differ in size, omit target and weights, because targets of one batch can differ in size.

    Raises:
        DataError: The sample is far smaller than the smallest input of the network.
    """
    own, multiple, scale = sample.source.shape[-2:], rule.size_multiple, rule.target_scale
    sides = [max(rule.min_size, -(-side // multiple) * multiple) for side in own]
    if math.prod(sides) > max(_MOST_PADDED, _MOST_TIMES * math.prod(own)):
        size = f"{sides[1]}x{sides[0]}"
        raise DataError(f"{sample.name} is {own[1]}x{own[0]}, but this network needs {size}: use larger images")
    unit = math.ceil(1 / scale)  # pixels of the source for one pixel of the translation
    starts = [(side - length) // 2 // unit * unit for side, length in zip(sides, own, strict=True)]
    ends = [start - (-length // unit * unit) for start, length in zip(starts, own, strict=True)]
    window = Window(starts[0], ends[0], starts[1], ends[1]).at(1 / scale)
    result = sample if scale == 1 else replace(sample, target=None, weights=None)
    if sides != list(own):
        rows, columns = (
            np.pad(np.arange(length), (start, side - length - start), mode="reflect")
            for length, start, side in zip(own, starts, sides, strict=True)
        )
        result = result.mapped(lambda image: _at(image, rows, columns))
    return PaddedSample(sample, result, window)


def _at(image: Tensor, rows: np.ndarray, columns: np.ndarray) -> Tensor:
    """Return the given rows and columns of a (C, H, W) image."""
    result, pixels = large_array((len(image), len(rows), len(columns)), image.numpy().dtype), image.numpy()
    for part in strips(len(rows), len(columns)):
        result[:, part] = pixels[:, rows[part, None], columns]
    return torch.from_numpy(result)


def reduced(image: Tensor, *, is_ids: bool = False) -> Tensor:
    """Return a (C, H, W) image or id map, scaled down to a few million pixels."""
    side = max(1, math.isqrt(math.prod(image.shape[1:]) // _REDUCED))
    return image[:, ::side, ::side] if is_ids else means_of_squares(image, side) if side > 1 else image


@dataclass
class SourceValues:
    """Finds sources whose values seem to have another unit than in training.

    Such values are mostly outside the training range, nearly constant, or have a very different maximum.

    trained: Value range in training, or None if sources are 8-bit RGB images or label maps.
    images: Name of the map that holds the images, "source" or "source_images".
    """

    trained: ValueRange | None
    images: str = "source"
    _n_samples: int = 0
    _odd: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, sample: Sample) -> None:
        """Compare the values of a source with the training range."""
        if self.trained is None:
            return
        self._n_samples += 1
        image = reduced(getattr(sample, self.images))
        seen = self.trained.to_float(image[None])
        width = float(seen.amax() - seen.amin()) / 2
        fits = width >= _NARROW and self.trained.outside(image) <= _MUCH_OUTSIDE
        pixels = image.flatten(1)[:, :: -(-image[0].numel() // _MAX_PIXELS)].float().abs()
        bounds = torch.tensor([self.trained.low, self.trained.high]).abs().amax(dim=0).numpy()
        ratio = float((np.percentile(pixels.numpy(), _HIGHEST, axis=1) / bounds).max())
        if not fits or not 1 / _TIMES <= ratio <= _TIMES:
            low, high = image.float().aminmax()
            self._odd[sample.name] = (exact(low.numpy()), exact(high.numpy()))

    def warn(self, world: World) -> None:
        """Log one warning for all processes together. It counts the sources that do not fit the training range."""
        gathered = world.gather((self._odd, self._n_samples))
        odd = {name: values for of_process, _ in gathered for name, values in of_process.items()}
        if self.trained is None or not odd or not world.is_main:
            return
        name, n_samples = min(odd), sum(number for _, number in gathered)
        trained = f"{exact(min(self.trained.low))} to {exact(max(self.trained.high))}"
        text = (
            "%d of %d sources do not fit the training range, %s. For example, %s has values from %s to %s. Store all "
            "sources in the unit of training, or set data.source_range=[LOW,HIGH]"
        )
        logger.warning(text, len(odd), n_samples, trained, name, *odd[name])


def report_parts(layout: Layout) -> None:
    """Log which page or pyramid level is read if TIFF sources have several pages or levels."""
    pages, levels = dict[str, str](), dict[str, str]()
    sources = (file for index in range(len(layout)) for file in list(layout.provenance(index).files.values())[:1])
    for file in (file for file in sources if file.suffix.lower() in TIFF_SUFFIXES):
        part, n_images = seen_in(file, lambda image: (image.part, image.n_images), otherwise=("", 1))
        if part.startswith("level"):
            levels[str(file)] = part
        elif n_images > 1:
            pages[str(file)] = part
    if pages:
        text = "%s with several images or bands: only one per file is read, for example %s of %s. Save bands as RGB"
        logger.warning(text, counted(len(pages), "file"), next(iter(pages.values())), next(iter(pages)))
    if levels:
        text = "pyramids     %s, only the full resolution is translated, for example %s of %s"
        logger.info(text, counted(len(levels), "file"), next(iter(levels.values())), next(iter(levels)))
