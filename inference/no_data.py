"""Pixels of sources without data: they are filled for the network, and marked in the results."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from data.batch import Sample
from data.files.size_guard import large_array, large_copy
from data.files.tiff_tags import file_tags
from data.folder import File
from data.no_data import filled, missing_pixels
from data.value_range import ValueRange
from utils.mapped_memory import strips

_RESULTS = {torch.float32: float("nan"), torch.int16: -32768.0}  # values for no data; 0 in other types


@dataclass(frozen=True)
class NoData:
    """Pixels without data of a result.

    value: Their value.
    missing: (H, W) bool, True for such pixels of the source, or None if it has none.
    """

    value: float
    missing: Tensor | None

    def marked(self, image: Tensor) -> Tensor:
        """Return a result (C, H, W), which may have other sides than its source, with the value in these pixels.

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
    images: Map of a sample that holds images, "source" or "source_images", or None for label maps.
    source_range: Values of the sources, or None for 8-bit RGB.
    result_dtype: Type of the results.
    """

    value: float | None = None
    images: str | None = None
    source_range: ValueRange | None = None
    result_dtype: torch.dtype = torch.uint8

    def value_in(self, files: Mapping[str, File]) -> float | None:
        """Return the value of pixels without data in the files of a sample, by kind of map; None if there is none."""
        if self.images is None:
            return None
        if self.value is not None:
            return self.value
        return file_tags(files.get("source" if self.images == "source" else "source_2")).no_data

    def filled_sample(self, sample: Sample, value: float | None) -> tuple[Sample, Tensor | None]:
        """Return a sample with filled pixels, and (H, W) bool, True for these; None if there are none."""
        if self.images is None:
            return sample, None
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
            return sample, None
        maps: dict[str, Any] = {self.images: torch.from_numpy(result)}
        return replace(sample, **maps), torch.from_numpy(mask)

    def marks(self, value: float | None, missing: Tensor | None) -> NoData | None:
        """Return the pixels without data of a result; None if it has none and its source names no value for them.

        value: Value of such pixels in the source, or None.
        missing: (H, W) bool, True for such pixels of the source, or None.
        """
        if value is None and missing is None:
            return None
        fits = value is not None and _holds(self.result_dtype, value)
        return NoData(value if value is not None and fits else _RESULTS.get(self.result_dtype, 0.0), missing)


def _holds(dtype: torch.dtype, value: float) -> bool:
    if dtype.is_floating_point:
        return True
    bounds = torch.iinfo(dtype)
    return bounds.min <= value <= bounds.max and value == int(value)
