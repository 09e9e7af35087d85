"""Samples padded by reflection to sizes that a network accepts, and where the sample lies in the padded one."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from data.batch import DataError, Sample
from data.files.size_guard import large_array, large_copy
from data.layout import Layout
from data.preprocessing import Placement, Preprocessing, place
from inference.no_data import NoDataRule
from inference.tiling import Window
from utils.mapped_memory import strips

_MOST_PADDED = 2**20  # pixels of a padded image of any size; a file's settings may ask for 65536x65536
_MOST_TIMES = 64  # pixels of a larger padded image, in pixels of the image


@dataclass(frozen=True)
class PaddedSample:
    """A sample, the same padded for the network, and the window of the padded one's translation that holds its own.

    missing: Pixels of the sample's source that had no data and were filled, (H, W) bool, or None.
    no_data: Value of such pixels in the source, or None.
    """

    sample: Sample
    padded: Sample
    window: Window
    missing: Tensor | None = None
    no_data: float | None = None


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
    no_data: NoDataRule = NoDataRule(),  # noqa: B008  frozen
) -> PaddedSample:
    """Read sample `index` at its own size, or at the size of `preprocessing` for testing, and pad it as needed.

    no_data: Finds and fills pixels without data.

    Raises:
        DataError: the sample cannot be read.
    """
    sample, value = layout.read(index), no_data.value_in(layout.provenance(index).files)
    sample, missing = no_data.filled_sample(sample, value)
    result = fitted(sample, preprocessing, keeps_size=keeps_size, source_is_ids=layout.n_classes > 0)
    if missing is not None and missing.shape != result.sample.source.shape[-2:]:
        as_ids = Sample(sample.name, source=missing[None].int())
        missing = place(as_ids, preprocessing.fixed(as_ids), source_is_ids=True).source[0].bool()
    return replace(result, missing=missing, no_data=value)


def fitted(sample: Sample, preprocessing: Preprocessing, *, keeps_size: bool, source_is_ids: bool) -> PaddedSample:
    """Return a sample at its own size, or at the size of `preprocessing` for testing, and padded as needed.

    Raises:
        DataError: the sample would have too many pixels.
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

    All maps are reflected at their borders, repeatedly if the sample is small; a side of 1 pixel is repeated. Ids stay
    ids. A target of another size than the source is left out, and so are its weights: no generator takes them. Padded
    sources of one batch have the same size, but their targets might not.

    Sides of the window that are no whole numbers are rounded up.

    Raises:
        DataError: The sample is far smaller than the sides that the network takes.
    """
    own, multiple, scale = sample.source.shape[-2:], rule.size_multiple, rule.target_scale
    sides = [max(rule.min_size, -(-side // multiple) * multiple) for side in own]
    if math.prod(sides) > max(_MOST_PADDED, _MOST_TIMES * math.prod(own)):
        size = f"{sides[1]}x{sides[0]}"
        raise DataError(f"{sample.name} is {own[1]}x{own[0]}, which this network pads to {size}: give larger images")
    unit = math.ceil(1 / scale)  # pixels of the source that are one of the translation
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
