"""Pixels of sources without data: they are filled for the network, and marked in the results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from data.batch import Sample
from data.files.pixels import StoredRows
from data.files.tiff_tags import file_tags
from data.no_data import filled, missing_pixels
from data.store import File
from data.value_range import ValueRange

_RESULTS = {torch.float32: float("nan"), torch.int16: -32768.0}  # values for no data; 0 in other types


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
        missing = missing_pixels(image, value)
        maps: dict[str, Any] = {self.images: self.filled(image, missing)}
        return replace(sample, **maps), missing

    def filled(self, image: Tensor, missing: Tensor | None) -> Tensor:
        """Return a (C, H, W) image with filled pixels; missing: (H, W) bool, or None."""
        low, high = (self.source_range.low, self.source_range.high) if self.source_range else ((0.0,), (255.0,))
        middle = (torch.tensor(low) + torch.tensor(high)) / 2
        return filled(image, missing, middle[:, None, None])

    def marks(
        self, value: float | None, missing: Callable[[int, int], Tensor | None], *, has_missing: bool
    ) -> "NoData | None":
        """Return the pixels without data of a result; None if it has none and its source names no value for them.

        value: Value of such pixels in the source, or None.
        missing, has_missing: Fields of NoData.
        """
        if value is None and not has_missing:
            return None
        fits = value is not None and _holds(self.result_dtype, value)
        result = value if value is not None and fits else _RESULTS.get(self.result_dtype, 0.0)
        return NoData(result, missing, has_missing)


@dataclass(frozen=True)
class NoData:
    """Pixels without data of a result.

    value: Their value.
    missing: Returns (h, W) bool for rows `top` to `bottom - 1` of the result, or None if these have none.
    has_missing: Whether any row has such pixels.
    """

    value: float
    missing: Callable[[int, int], Tensor | None]
    has_missing: bool

    def marked(self, rows: Tensor, top: int) -> Tensor:
        """Return rows (C, h, W) of the result from row `top`, with the value in the pixels without data.

        Integers that equal the value by chance are changed by one level, as GDAL does.
        """
        missing, pixels = self.missing(top, top + rows.shape[1]), rows.numpy().copy()  # torch fills no uint16
        if pixels.dtype.kind != "f":
            is_largest = self.value == np.iinfo(pixels.dtype).max
            pixels[pixels == self.value] = self.value + (-1 if is_largest else 1)
        if missing is not None:
            pixels[:, missing.numpy()] = self.value
        return torch.from_numpy(pixels)


@dataclass
class FilledRows:
    """Rows of an open file, which are filled when they are read.

    value: Value of pixels without data in the file, or None.
    has_missing: Whether the rows that were read had such pixels.
    """

    stored: StoredRows
    rule: NoDataRule
    value: float | None
    has_missing: bool = False

    def read(self, top: int, bottom: int) -> Tensor:
        """Return rows `top` to `bottom - 1`, (C, h, W)."""
        image = self.stored.read(top, bottom)
        missing = missing_pixels(image, self.value)
        self.has_missing = self.has_missing or missing is not None
        return self.rule.filled(image, missing)

    def missing(self, top: int, bottom: int) -> Tensor | None:
        """Return (h, W) bool, True for pixels without data in rows `top` to `bottom - 1`, or None if all have data."""
        return missing_pixels(self.stored.read(top, bottom), self.value)


def scaled_rows(
    missing: Callable[[int, int], Tensor | None], sides: tuple[int, int], result: tuple[int, int]
) -> Callable[[int, int], Tensor | None]:
    """Return the function that finds pixels without data in the rows of a result, from one for the rows of its source.

    sides, result: Heights and widths of the source and of the result.
    """
    if sides == result:
        return missing
    rows, columns = (torch.arange(new) * own // new for own, new in zip(sides, result, strict=True))

    def found(top: int, bottom: int) -> Tensor | None:
        first, last = int(rows[top]), int(rows[bottom - 1])
        part = missing(first, last + 1)
        return None if part is None else part[(rows[top:bottom] - first)[:, None], columns]

    return found


def _holds(dtype: torch.dtype, value: float) -> bool:
    if dtype.is_floating_point:
        return True
    bounds = torch.iinfo(dtype)
    return bounds.min <= value <= bounds.max and value == int(value)
