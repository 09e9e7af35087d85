"""Samples as a network takes them: pixels without data filled, resized, and padded by reflection."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from configs.data_facts import DataFacts
from data.batch import DataError, Sample
from data.files.size_guard import large_array, large_copy
from data.files.tiff_tags import file_tags
from data.folder import File
from data.layout import Layout
from data.no_data import filled, missing_pixels
from data.preprocessing import Placement, Preprocessing, place
from data.value_range import ValueRange
from inference.tiling import Window
from utils.mapped_memory import strips
from utils.pictures import means_of_squares

_MOST_PADDED = 2**20  # pixels of a padded image of any size; a file's settings may ask for 65536x65536
_MOST_TIMES = 64  # largest ratio of the pixels of a larger padded image to those of the image
_REDUCED = 2**21  # pixels; a reduced image has up to four times as many
_RESULTS = {torch.float32: float("nan"), torch.int16: -32768.0}  # values for no data; 0 in other types


@dataclass(frozen=True)
class NoData:
    """Pixels without data of a result.

    value: Value of these pixels.
    missing: (H, W) bool, True for such pixels of the source, or None if it has none.
    """

    value: float
    missing: Tensor | None

    def marked(self, image: Tensor) -> Tensor:
        """Return a result (C, H, W) with the value in these pixels. It may have another size than its source.

        Integers that equal the value by chance are changed by one level, as GDAL does.
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
    """How pixels without data are found in sources and filled.

    value: Value of such pixels by --nodata, or None: the value that each TIFF names. NaN and infinity always are.
    images: Map of a sample that holds images, "source" or "source_images", or None if sources are only label maps.
    source_range: Range of the sources' values, or None for 8-bit RGB.
    result_dtype: Type of the results.
    """

    value: float | None = None
    images: str | None = None
    source_range: ValueRange | None = None
    result_dtype: torch.dtype = torch.uint8

    @classmethod
    def of(cls, facts: DataFacts, value: float | None) -> Self:
        """Return the rule of a data set. value: The option --nodata, or None."""
        dtype = torch.uint8 if facts.conditioning.target_is_rgb else facts.target_dtype
        images = facts.source_images if facts.has_source_images else None
        return cls(value, images, facts.ranges.get(facts.source_images), dtype)

    def fill(self, sample: Sample, files: Mapping[str, File]) -> tuple[Sample, NoData | None]:
        """Return a sample with filled pixels, and these pixels of its result.

        The latter are None if all pixels have data and the source names no value for no data.

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
            return sample, None if value is None else NoData(self._of_result(value), None)
        maps: dict[str, Any] = {self.images: torch.from_numpy(result)}
        return replace(sample, **maps), NoData(self._of_result(value), torch.from_numpy(mask))

    def _of_result(self, value: float | None) -> float:
        """Return the value for no data in results: the sources' value if the type of results holds it."""
        if value is not None:
            dtype = self.result_dtype
            bounds = None if dtype.is_floating_point else torch.iinfo(dtype)
            if bounds is None or (bounds.min <= value <= bounds.max and value == int(value)):
                return value
        return _RESULTS.get(self.result_dtype, 0.0)


@dataclass(frozen=True)
class PaddedSample:
    """A sample, its padded copy for the network, and the window of the sample in the translation of the copy.

    no_data: Pixels without data of the translation, or None.
    """

    sample: Sample
    padded: Sample
    window: Window
    no_data: NoData | None = None


@contextmanager
def collected(problems: list[str]) -> Iterator[None]:
    """Collect the problems of a sample, which is skipped, instead of raising them."""
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
    """Read sample `index`, fill its pixels without data, and fit it as `fitted` does.

    Raises:
        DataError: The sample cannot be read.
    """
    sample, marks = no_data.fill(layout.read(index), layout.provenance(index).files)
    result = fitted(sample, preprocessing, keeps_size=keeps_size, source_is_ids=layout.n_classes > 0)
    if marks and marks.missing is not None and marks.missing.shape != result.sample.source.shape[-2:]:
        as_ids = Sample(sample.name, source=marks.missing[None].int())
        placed = place(as_ids, preprocessing.fixed(as_ids), source_is_ids=True)
        marks = replace(marks, missing=placed.source[0].bool())
    return replace(result, no_data=marks)


def fitted(sample: Sample, preprocessing: Preprocessing, *, keeps_size: bool, source_is_ids: bool) -> PaddedSample:
    """Return a sample padded at its own size, or at the size of `preprocessing` for testing.

    Raises:
        DataError: The sample would have too many pixels.
    """
    sample = sample.mapped(_contiguous)  # otherwise the next steps would copy large ones into the memory
    height, width = sample.source.shape[-2:]
    own_size = Placement(height, width, 0, 0, height, width, flip=False, target_scale=preprocessing.target_scale)
    placement = own_size if keeps_size else preprocessing.fixed(sample)
    return padded(place(sample, placement, source_is_ids=source_is_ids), preprocessing)


def _contiguous(image: Tensor) -> Tensor:
    return image if image.is_contiguous() else torch.from_numpy(large_copy(image.numpy()))


def padded(sample: Sample, rule: Preprocessing) -> PaddedSample:
    """Pad a sample to sides that are multiples of `rule.size_multiple` and at least `rule.min_size`.

    All maps are reflected at their borders, repeatedly if the sample is small. A side of 1 pixel is repeated. The
    padded sample has no target and no weights if their size differs from the source's, because padded sources of one
    batch have the same size, but their targets might not. Sides of the window that are no whole numbers are rounded up.

    Raises:
        DataError: The sample is far smaller than the sides that the network takes.
    """
    own, multiple, scale = sample.source.shape[-2:], rule.size_multiple, rule.target_scale
    sides = [max(rule.min_size, -(-side // multiple) * multiple) for side in own]
    if math.prod(sides) > max(_MOST_PADDED, _MOST_TIMES * math.prod(own)):
        size = f"{sides[1]}x{sides[0]}"
        raise DataError(f"{sample.name} is {own[1]}x{own[0]}, which this network pads to {size}: give larger images")
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
    """Return the pixels of a (C, H, W) image in some rows and columns."""
    result, pixels = large_array((len(image), len(rows), len(columns)), image.numpy().dtype), image.numpy()
    for part in strips(len(rows), len(columns)):
        result[:, part] = pixels[:, rows[part, None], columns]
    return torch.from_numpy(result)


def reduced(image: Tensor, *, is_ids: bool = False) -> Tensor:
    """Return a (C, H, W) image, or map of ids, reduced to a few million pixels."""
    side = max(1, math.isqrt(math.prod(image.shape[1:]) // _REDUCED))
    return image[:, ::side, ::side] if is_ids else means_of_squares(image, side) if side > 1 else image
