"""Images that are read and written row by row, so that a file may be larger than the memory."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO, Protocol, Self

import numpy as np

from data.batch import DataError, LoadingError
from data.files.size_guard import check_size


class PixelRows(Protocol):
    """The pixels of an open image file."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        ...

    @property
    def dtype(self) -> np.dtype:
        """The type of the pixels in the file, in its byte order."""
        ...

    def read(self, top: int, bottom: int) -> np.ndarray:
        """Return rows `top` to `bottom - 1` as (C, h, W).

        Raises:
            DataError: the file is damaged.
        """
        ...


def check_type(dtype: np.dtype, name: str) -> None:
    """Raise DataError unless pixels of a type can be read; name: of the file, for messages."""
    if dtype.kind not in "buif":
        raise DataError(f"{name}: holds {dtype.name}, expected integers or floats")


def read_whole(rows: PixelRows, name: str) -> np.ndarray:
    """Return all pixels of a file, (C, H, W).

    Raises:
        TooLargeError: the guard does not let an image of this size be read at once.
        DataError: the file is damaged.
    """
    n_channels, height, width = rows.shape
    check_size(name, height, width, n_channels * rows.dtype.itemsize)
    try:
        return rows.read(0, height)
    except MemoryError as error:
        raise LoadingError(f"{name}: too little memory to read it") from error


@dataclass(frozen=True)
class UncompressedRows:
    """Pixels that lie in a file as they are: planes of channels, or channels within each pixel.

    name: of the file, for messages. start: position of the first byte. n_planes, n_per_pixel: channels of the two
        kinds, of which one is 1.

    Raises:
        DataError: the file is shorter than its pixels.
    """

    file: BinaryIO
    name: str
    start: int
    n_planes: int
    height: int
    width: int
    n_per_pixel: int
    dtype: np.dtype

    def __post_init__(self) -> None:
        expected = self.start + self.n_planes * self.height * self._row_bytes
        if (found := self.file.seek(0, 2)) < expected:
            raise DataError(f"{self.name}: is cut off: it has {found} of {expected} bytes. Copy or create it again.")

    @property
    def shape(self) -> tuple[int, int, int]:
        """See PixelRows."""
        return self.n_planes * self.n_per_pixel, self.height, self.width

    @property
    def _row_bytes(self) -> int:
        return self.width * self.n_per_pixel * self.dtype.itemsize

    def read(self, top: int, bottom: int) -> np.ndarray:
        """See PixelRows."""
        return np.concatenate([self._plane(number, top, bottom) for number in range(self.n_planes)])

    def _plane(self, number: int, top: int, bottom: int) -> np.ndarray:
        """Return rows of one of the planes, (n_per_pixel, h, W)."""
        n_bytes = (bottom - top) * self._row_bytes
        try:
            self.file.seek(self.start + (number * self.height + top) * self._row_bytes)
            content = self.file.read(n_bytes)
        except OSError as error:
            raise DataError(f"{self.name}: cannot be read: {error.strerror}") from error
        if len(content) != n_bytes:
            raise DataError(f"{self.name}: has become shorter while it was read. Start again.")
        return np.frombuffer(content, self.dtype).reshape(-1, self.width, self.n_per_pixel).transpose(2, 0, 1)


@dataclass(frozen=True)
class LoadedRows:
    """Pixels of a file that cannot be read in parts: all are read with the first row.

    name: of the file, for messages. load: returns them as (C, H, W).
    """

    name: str
    shape: tuple[int, int, int]
    dtype: np.dtype
    load: Callable[[], np.ndarray]

    def read(self, top: int, bottom: int) -> np.ndarray:
        """See PixelRows. Raises TooLargeError too."""
        return self._pixels[:, top:bottom]

    @cached_property
    def _pixels(self) -> np.ndarray:
        n_channels, height, width = self.shape
        check_size(self.name, height, width, n_channels * self.dtype.itemsize)
        return self.load()


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
