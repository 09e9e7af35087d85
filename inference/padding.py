"""Samples padded by reflection to sizes that a network accepts, and where the sample lies in the padded one."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from data.batch import DataError, Sample
from data.layout import Layout
from data.preprocessing import Preprocessing, place
from inference.no_data import NoDataRule
from inference.tiling import Window

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
    own_size = replace(preprocessing, mode="crop").whole
    placement = own_size(sample) if keeps_size else preprocessing.fixed(sample)
    return padded(place(sample, placement, source_is_ids=source_is_ids), preprocessing)


@dataclass(frozen=True)
class Padding:
    """The positions in an image that each row and column of the padded one repeats, and the window of its translation.

    window: of the image's translation in that of the padded one.
    """

    rows: Tensor
    columns: Tensor
    window: Window

    @classmethod
    def of(cls, name: str, height: int, width: int, rule: Preprocessing) -> Self:
        """Return the padding of an image by reflection, as `padded`.

        Raises:
            DataError: The image is far smaller than the sides that the network takes. Its `name` is in the message.
        """
        multiple, scale = rule.size_multiple, rule.target_scale
        sides = [max(rule.min_size, -(-side // multiple) * multiple) for side in (height, width)]
        if math.prod(sides) > max(_MOST_PADDED, _MOST_TIMES * height * width):
            size = f"{sides[1]}x{sides[0]}"
            raise DataError(f"{name} is {width}x{height}, which this network pads to {size}: give larger images")
        unit = math.ceil(1 / scale)  # pixels of the source that are one of the translation
        top, left = ((side - own) // 2 // unit * unit for side, own in zip(sides, (height, width), strict=True))
        bottom, right = (start - (-own // unit * unit) for start, own in ((top, height), (left, width)))
        rows, columns = (
            torch.from_numpy(np.pad(np.arange(own), (start, side - own - start), mode="reflect"))
            for own, start, side in ((height, top, sides[0]), (width, left, sides[1]))
        )
        return cls(rows, columns, Window(top, bottom, left, right).at(1 / scale))


def padded(sample: Sample, rule: Preprocessing) -> PaddedSample:
    """Pad a sample to sides that are multiples of `rule.size_multiple` and at least `rule.min_size`.

    All maps are reflected alike at their borders, repeatedly where the sample is small; a side of 1 pixel is repeated.
    Ids stay ids. A target of another size than the source is left out, and so are its weights: no generator takes them.
    Padded sources of one batch have the same size, but their targets might not.

    The window is that of the sample's translation in that of the padded sample; sides that are no whole numbers are
    rounded up.

    Raises:
        DataError: The sample is far smaller than the sides that the network takes.
    """
    height, width = sample.source.shape[-2:]
    padding = Padding.of(sample.name, height, width, rule)
    result = sample if rule.target_scale == 1 else replace(sample, target=None, weights=None)
    rows, columns = padding.rows[:, None], padding.columns
    if (len(rows), len(columns)) != (height, width):
        result = result.mapped(lambda image: image[:, rows, columns])
    return PaddedSample(sample, result, padding.window)
