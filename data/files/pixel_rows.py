"""Images that are read and written row by row, so that a file may be larger than the memory: NumPy's files, and PNG.

Arrays (.npy) are read without ever unpickling objects. Pillow writes all rows of a PNG at once, and no colours of 16
bits.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np

from data.batch import DataError, LoadingError
from data.files.file_errors import COPY_AGAIN, first_line
from data.files.size_guard import check_size

_NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,  # differs in names of fields, which images do not have
}
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # by number of channels; PNG specification, section 11.2.2
_UP = 2  # the filter that stores differences to the row above; section 9.2
_STRIP_BYTES = 2**24


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
    file: BinaryIO, name: str, *, n_planes: int, height: int, width: int, n_per_pixel: int, dtype: np.dtype, start: int
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
        pixels = np.frombuffer(bytearray(content), dtype)  # which may be written to
        return pixels.reshape(-1, width, n_per_pixel).transpose(2, 0, 1)

    def read(top: int, bottom: int) -> np.ndarray:
        planes = [plane(number, top, bottom) for number in range(n_planes)]
        return planes[0] if n_planes == 1 else np.concatenate(planes)

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
        return cls(pixels.shape, pixels.dtype, [pixels])

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


def npy_rows(file: BinaryIO, name: str, n_channels: int) -> PixelRows:
    """Return the pixels of an array of the shape (H, W), (C, H, W) or (H, W, C), of which only the header is read.

    name: of the file, for messages.
    n_channels: the channels that are expected, by which the last two shapes differ.

    Raises:
        DataError: the file is damaged or cut off, or holds an array of another shape or type.
    """
    try:
        version = np.lib.format.read_magic(file)
        if version not in _NPY_HEADERS:
            raise DataError(f"{name}: is of .npy version {version[0]}.{version[1]}, expected up to 3.0. Save it again.")
        shape, is_fortran, dtype = _NPY_HEADERS[version](file)
    except (OSError, ValueError, EOFError, TypeError, SyntaxError, OverflowError) as error:
        raise DataError(f"{name}: cannot be read as an array: {first_line(error)}; {COPY_AGAIN}") from error
    check_type(dtype, name)
    if len(shape) not in (2, 3) or min(shape) < 1:
        raise DataError(f"{name}: has the shape {shape}, expected (H, W), (C, H, W) or (H, W, C)")
    has_channels = len(shape) == 3
    is_last = has_channels and shape[0] != n_channels and (shape[2] == n_channels or shape[2] < shape[0])
    height, width = shape[:2] if is_last else shape[-2:]
    n_planes, n_per_pixel = (1, shape[2]) if is_last else (shape[0] if has_channels else 1, 1)
    start = file.seek(0, 1)
    rows = uncompressed_rows(
        file, name, n_planes=n_planes, height=height, width=width, n_per_pixel=n_per_pixel, dtype=dtype, start=start
    )
    if not is_fortran:
        return rows

    def load() -> np.ndarray:
        file.seek(0)
        values = np.load(file, allow_pickle=False)
        return values.transpose(2, 0, 1) if is_last else values.reshape(-1, height, width)

    return loaded_rows(name, rows.shape, dtype, load)


def write_npy_rows(path: Path, image: Bands) -> None:
    """Write a (C, H, W) array by its rows."""
    _, height, width = image.shape
    row_bytes, top = width * image.dtype.itemsize, 0
    with path.open("wb") as file:
        described = {"descr": np.lib.format.dtype_to_descr(image.dtype), "fortran_order": False, "shape": image.shape}
        np.lib.format.write_array_header_1_0(file, described)
        start = file.seek(0, 1)
        for part in image.parts:
            for channel, rows in enumerate(part):
                file.seek(start + (channel * height + top) * row_bytes)
                file.write(np.ascontiguousarray(rows, image.dtype).data)
            top += part.shape[1]


def write_png_rows(path: Path, image: Bands) -> None:
    """Write a uint8 or uint16 image, grey or RGB, with or without transparency, by its rows."""
    (n_channels, height, width), dtype = image.shape, image.dtype
    row_bytes = width * n_channels * dtype.itemsize
    compressor, above = zlib.compressobj(), np.zeros((1, row_bytes), np.uint8)
    with path.open("wb") as file:
        header = struct.pack(">IIBBBBB", width, height, 8 * dtype.itemsize, _COLOR_TYPES[n_channels], 0, 0, 0)
        file.write(_PNG_SIGNATURE + _chunk(b"IHDR", header))
        for strip in image.strips(max(1, _STRIP_BYTES // row_bytes)):
            pixels = np.ascontiguousarray(strip.transpose(1, 2, 0), dtype=dtype.newbyteorder(">"))
            rows = pixels.view(np.uint8).reshape(-1, row_bytes)
            lines = np.full((len(rows), 1 + row_bytes), _UP, np.uint8)
            lines[:, 1:] = np.diff(rows, axis=0, prepend=above)  # modulo 256
            file.write(_chunk(b"IDAT", compressor.compress(lines.data)))
            above = rows[-1:]
        file.write(_chunk(b"IDAT", compressor.flush()) + _chunk(b"IEND", b""))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
