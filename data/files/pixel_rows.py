"""Images that are read and written row by row, so that a file may be larger than the memory."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO, Self

import numpy as np

from data.batch import DataError, LoadingError
from data.files.size_guard import check_size


@dataclass(frozen=True)
class PixelRows:
    """The pixels of an open image file.

    name: of the file, for messages. shape: channels, height and width.
    dtype: of the pixels in the file, in its byte order.
    read: returns rows `top` to `bottom - 1` as (C, h, W); raises DataError where the file is damaged.
    """

    name: str
    shape: tuple[int, int, int]
    dtype: np.dtype
    read: Callable[[int, int], np.ndarray]

    def read_whole(self) -> np.ndarray:
        """Return all pixels, (C, H, W).

        Raises:
            TooLargeError: the guard does not let an image of this size be read at once.
            DataError: the file is damaged.
        """
        n_channels, height, width = self.shape
        check_size(self.name, height, width, n_channels * self.dtype.itemsize)
        try:
            return self.read(0, height)
        except MemoryError as error:
            raise LoadingError(f"{self.name}: too little memory to read it") from error


def check_type(dtype: np.dtype, name: str) -> None:
    """Raise DataError unless pixels of a type can be read; name: of the file, for messages."""
    if dtype.kind not in "buif":
        raise DataError(f"{name}: holds {dtype.name}, expected integers or floats")


def uncompressed_rows(
    file: BinaryIO,
    name: str,
    *,
    n_planes: int,
    height: int,
    width: int,
    n_per_pixel: int,
    dtype: np.dtype,
    start: int,
) -> PixelRows:
    """Return pixels that lie in a file as they are: planes of channels, or channels within each pixel.

    n_planes, n_per_pixel: channels of the two kinds, of which one is 1. start: position of the first byte.

    Raises:
        DataError: the file is shorter than its pixels.
    """
    row_bytes = width * n_per_pixel * dtype.itemsize
    expected = start + n_planes * height * row_bytes
    if (found := file.seek(0, 2)) < expected:
        raise DataError(f"{name}: is cut off: it has {found} of {expected} bytes. Copy or create it again.")

    def plane(number: int, top: int, bottom: int) -> np.ndarray:
        n_bytes = (bottom - top) * row_bytes
        try:
            file.seek(start + (number * height + top) * row_bytes)
            content = file.read(n_bytes)
        except OSError as error:
            raise DataError(f"{name}: cannot be read: {error.strerror}") from error
        if len(content) != n_bytes:
            raise DataError(f"{name}: has become shorter while it was read. Start again.")
        return np.frombuffer(content, dtype).reshape(-1, width, n_per_pixel).transpose(2, 0, 1)

    def read(top: int, bottom: int) -> np.ndarray:
        return np.concatenate([plane(number, top, bottom) for number in range(n_planes)])

    return PixelRows(name, (n_planes * n_per_pixel, height, width), dtype, read)


def loaded_rows(name: str, shape: tuple[int, int, int], dtype: np.dtype, load: Callable[[], np.ndarray]) -> PixelRows:
    """Return pixels of a file that cannot be read in parts: `load` reads all of them with the first row, (C, H, W)."""

    @cache
    def pixels() -> np.ndarray:
        check_size(name, shape[1], shape[2], shape[0] * dtype.itemsize)
        return load()

    return PixelRows(name, shape, dtype, lambda top, bottom: pixels()[:, top:bottom])


@dataclass(frozen=True)
class Bands:
    """An image to be written, which comes from top to bottom.

    shape: (C, H, W). parts: (C, h, W) of successive rows.
    """

    shape: tuple[int, int, int]
    dtype: np.dtype
    parts: Iterable[np.ndarray]

    @classmethod
    def of(cls, pixels: np.ndarray) -> Self:
        """Return a (C, H, W) image as one band."""
        n_channels, height, width = pixels.shape
        return cls((n_channels, height, width), pixels.dtype, [pixels])

    def strips(self, n_rows: int) -> Iterator[np.ndarray]:
        """Yield the parts again, (C, n_rows, W) each; the last one may have fewer rows."""
        rest: np.ndarray | None = None
        for part in self.parts:
            rows = part if rest is None else np.concatenate([rest, part], axis=1)
            end = rows.shape[1] // n_rows * n_rows
            yield from (rows[:, top : top + n_rows] for top in range(0, end, n_rows))
            rest = rows[:, end:] if end < rows.shape[1] else None
        if rest is not None:
            yield rest
