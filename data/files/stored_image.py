"""The interface of open image files, limits for their size, and images in NumPy files.

The limits refuse files that need too much memory or time. A small file can hold a huge image. A JPEG of 1 MB can hold
30,000 scans, and a decoder goes through all pixels for each scan.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import DTypeLike

from data.batch import DataError
from utils.machine import memory_bytes
from utils.mapped_memory import mapped_array


class UnfitError(Exception):
    """The file is an intact image, but its pixels cannot be used."""


def not_ids(pixels: str) -> UnfitError:
    """Return the error for a label map without integer ids. `pixels` names what it holds instead, such as "RGB"."""
    return UnfitError(
        f"holds {pixels} pixels, expected one integer id per pixel (8-bit or 16-bit PNG, or palette PNG with one "
        "palette for all files). For maps in colours, set data.label_colors=FILE, or convert them: python -m "
        "tools.convert_data colors-to-ids FROM TO. To train on RGB pairs instead, set data.n_classes=0"
    )


class StoredImage(ABC):
    """An open image file. Opening reads only the header. The methods can raise any error if the file is damaged.

    alpha: Index of the transparency channel, or None.
    is_8_bit_rgb: Whether the image is grey or RGB with up to 8 bits, like most photographs.
    """

    alpha: int | None = None
    is_8_bit_rgb: bool = False

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """Height and width of the upright image."""

    @property
    @abstractmethod
    def n_channels(self) -> int:
        """Number of channels, including transparency."""

    @property
    def n_images(self) -> int:
        """Number of images in the file."""
        return 1

    @property
    def part(self) -> str:
        """Part of the file that holds the image, such as "page 2 of 5" or "level 1 of 3". Empty for a single image."""
        return ""

    @property
    def palette(self) -> bytes:
        """RGB bytes of the palette; empty if the image has no palette."""
        return b""

    @abstractmethod
    def rgb(self) -> np.ndarray:
        """Return (H, W, 3) uint8. Only the high byte of 16-bit values is kept, and transparency is dropped."""

    @abstractmethod
    def ids(self) -> np.ndarray:
        """Return (H, W) int32: grey levels or palette indices, as stored."""

    @abstractmethod
    def pixels(self) -> np.ndarray:
        """Return all channels, (C, H, W), in the type of the file."""


DECODED_BYTES = 4  # bytes of memory per pixel of an image that Pillow decodes
_SHARE = 4  # pixels can use 1/4 of the memory, because reading an image needs several copies
_MAPPED_BYTES = 2**28  # larger arrays are stored in temporary files if `pixels_allowed` names a folder


class TooLargeError(DataError):
    """An image is too large to be read at once."""


@dataclass
class _Limits:
    n_pixels: int | None = None
    folder: Path | None = None


_limits = _Limits()


@contextmanager
def pixels_allowed(n_pixels: int | None, mapped_in: Path | None = None) -> Iterator[None]:
    """Limit images that this process reads to `n_pixels` pixels, or to a quarter of the memory if `n_pixels` is None.

    mapped_in: Folder for temporary files with the pixels of larger TIFF and .npy files. None: refuse larger files.
    """
    before = _limits.n_pixels, _limits.folder
    _limits.n_pixels, _limits.folder = n_pixels, mapped_in
    try:
        yield
    finally:
        _limits.n_pixels, _limits.folder = before


def pixel_array(name: str, shape: tuple[int, int, int], dtype: DTypeLike) -> np.ndarray:
    """Return an uninitialized `large_array` for the pixels of the image `name`, (C, H, W).

    Raises:
        TooLargeError: The array is too large for the memory.
    """
    if _limits.folder is None:
        check_size(name, *shape[1:], bytes_per_pixel=shape[0] * np.dtype(dtype).itemsize)
    return large_array(shape, dtype)


def large_array(shape: Sequence[int], dtype: DTypeLike) -> np.ndarray:
    """Return an uninitialized array. A large array is in a temporary file if `pixels_allowed` names a folder."""
    if _limits.folder and prod(shape) * np.dtype(dtype).itemsize > _MAPPED_BYTES:
        return mapped_array(_limits.folder, shape, dtype)
    return np.empty(shape, dtype)


def large_copy(image: np.ndarray) -> np.ndarray:
    """Return a copy of an image as a `large_array`."""
    copy = large_array(image.shape, image.dtype)
    copy[:] = image
    return copy


def memory_excess(n_bytes: int) -> str:
    """Return a text such as "more than a quarter of this machine's 34 GB", or "" if the memory is large enough."""
    has_room = n_bytes <= memory_bytes() // _SHARE
    return "" if has_room else f"more than a quarter of this machine's {memory_bytes() / 1e9:.3g} GB"


def is_too_large(height: int, width: int, bytes_per_pixel: int) -> bool:
    """Return whether an image exceeds the limit of `pixels_allowed`."""
    if (n_pixels := _limits.n_pixels) is not None:
        return height * width > n_pixels
    return bool(memory_excess(height * width * bytes_per_pixel))


def check_size(name: str, height: int, width: int, bytes_per_pixel: int = DECODED_BYTES) -> None:
    """Raise TooLargeError if the image `name` exceeds the limit of `pixels_allowed`."""
    if is_too_large(height, width, bytes_per_pixel):
        n_bytes, n_pixels = height * width * bytes_per_pixel, _limits.n_pixels
        size = f"{n_bytes / 1e9:.3g} GB"
        excess = f"more than {n_pixels} pixels" if n_pixels else memory_excess(n_bytes)
        raise TooLargeError(
            f"{name}: {width}x{height} pixels take {size}, {excess}: cut it into smaller images. test.py also "
            f"accepts --max-pixels {height * width}, and reads TIFF and .npy files of any size with --tile 1024"
        )


MAX_SCANS = 100  # an encoder writes about 10; decoding 100 empty scans of 4096x4096 pixels takes 1.1 s
_HEAD = 2**16  # bytes; for most files, reading only the first bytes is enough
_MAX_SEGMENTS = 10_000  # 64 MB of metadata, for example a depth map, has 1,000 segments
_SOI, _SOS, _EOI = b"\xff\xd8", 0xDA, 0xD9
_SEQUENTIAL, _PROGRESSIVE = (0xC0, 0xC1, 0xC9), (0xC2, 0xC6, 0xCA, 0xCE)
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # markers of headers that hold the size
_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])", re.DOTALL)  # no stuffed bytes and no restart markers


def with_few_scans(file: BinaryIO) -> BinaryIO:
    """Return the file, rewound to its start; raise ValueError if it is a JPEG with too many scans or segments.

    Other formats are not checked. If a JPEG has one scan, as in most photographs, only its first bytes are read.
    """
    content = file.read(_HEAD)
    if content.startswith(_SOI) and not _is_bounded(content):
        _is_bounded(content + file.read())
    file.seek(0)
    return file


def _is_bounded(content: bytes) -> bool:
    """Return whether the start of a JPEG shows that there are few scans; raise ValueError if there are too many."""
    n_scans, n_components = 0, 0
    for number, (marker, start) in enumerate(_segments(content)):
        if number == _MAX_SEGMENTS:
            raise ValueError(f"it has more than {_MAX_SEGMENTS} segments; save it again")
        if marker == _EOI:
            return True
        if marker in (*_SEQUENTIAL, *_PROGRESSIVE):
            n_components = content[start + 7] if marker in _SEQUENTIAL and start + 7 < len(content) else -1
        elif marker == _SOS:
            if n_scans == 0 and content[start + 2 : start + 3] == bytes([n_components % 256]):
                return True  # the first scan holds all components, so it is the only scan
            n_scans += 1
            if n_scans > MAX_SCANS:
                raise ValueError(f"it has more than {MAX_SCANS} scans; save it again")
    return False


def jpeg_size(content: bytes) -> tuple[int, int]:
    """Return the height and width in the header of a JPEG, or (0, 0) if there is no header."""
    for marker, start in _segments(content):
        if marker in _FRAMES:
            height, width = content[start + 3 : start + 5], content[start + 5 : start + 7]
            return int.from_bytes(height, "big"), int.from_bytes(width, "big")
        if marker in (_SOS, _EOI):
            break
    return 0, 0


def _segments(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield the marker of each segment of a JPEG, and the position after the marker."""
    position = len(_SOI)
    while found := _MARKER.search(content, position):
        yield found[1][0], found.end()
        position = found.end() + int.from_bytes(content[found.end() : found.end() + 2], "big")


_FORMAT = np.lib.format
_HEADERS = {1: _FORMAT.read_array_header_1_0, 2: _FORMAT.read_array_header_2_0, 3: _FORMAT.read_array_header_2_0}


class NpyImage(StoredImage):
    """An open .npy file with an array of the shape (H, W), (C, H, W) or (H, W, C).

    n_channels: Expected number of channels. It decides whether the first or the last axis holds the channels.

    Raises:
        DataError: The shape or type of the array is not supported.
    """

    def __init__(self, file: BinaryIO, name: str, n_channels: int) -> None:
        version, minor = _FORMAT.read_magic(file)
        if version not in _HEADERS:
            raise DataError(f"{name}: has .npy version {version}.{minor}, expected up to 3.0. Save it again.")
        shape, self._is_fortran, self._dtype = _HEADERS[version](file)
        if self._dtype.kind not in "buif":
            raise DataError(f"{name}: holds {self._dtype.name}, expected integers or floats")
        if len(shape) not in (2, 3) or min(shape) < 1:
            raise DataError(f"{name}: has the shape {shape}, expected (H, W), (C, H, W) or (H, W, C)")
        self._file, self._name, self._shape = file, name, shape if len(shape) == 3 else (1, *shape)
        first, _, last = self._shape
        self._has_channels_last = len(shape) == 3 and first != n_channels and (last == n_channels or last < first)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        first, second, last = self._shape
        return (first, second) if self._has_channels_last else (second, last)

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return self._shape[2] if self._has_channels_last else self._shape[0]

    def rgb(self) -> np.ndarray:
        """Raise UnfitError, because an array is not an 8-bit image."""
        raise UnfitError("it is a NumPy array, expected an 8-bit image: save it as PNG")

    ids = rgb

    def pixels(self) -> np.ndarray:
        """Return (C, H, W)."""
        start = self._file.seek(0, 1)
        expected, found = prod(self._shape) * self._dtype.itemsize, self._file.seek(0, 2) - start
        if found < expected:
            raise DataError(f"{self._name}: is cut off: it has {found} of {expected} bytes of pixels. Copy it again.")
        self._file.seek(start)
        flat = pixel_array(self._name, (self.n_channels, *self.size), self._dtype).reshape(-1)
        self._file.readinto(flat.view(np.uint8))  # type: ignore[attr-defined]
        values = flat.reshape(self._shape[::-1]).T if self._is_fortran else flat.reshape(self._shape)
        return np.moveaxis(values, -1, 0) if self._has_channels_last else values
