"""Limits of image sizes: a file of a few bytes can expand to more than the memory holds."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from data.batch import DataError
from utils.machine import memory_bytes
from utils.mapped_memory import mapped_array

DECODED_BYTES = 4  # bytes of a pixel that Pillow decodes
_SHARE = 4  # reading takes several times the memory of the pixels
_MAPPED_BYTES = 2**28  # larger arrays are in temporary files, if there is a folder for them


class TooLargeError(DataError):
    """An image is too large to be read at once."""


@dataclass
class _Limits:
    n_pixels: int | None = None
    folder: Path | None = None


_limits = _Limits()


@contextmanager
def pixels_allowed(n_pixels: int | None, mapped_in: Path | None = None) -> Iterator[None]:
    """Let this process read images of up to `n_pixels` at once. None allows a quarter of the memory.

    mapped_in: Folder of temporary files for the pixels of larger TIFF and .npy files. None: refuse these files.
    """
    before = _limits.n_pixels, _limits.folder
    _limits.n_pixels, _limits.folder = n_pixels, mapped_in
    try:
        yield
    finally:
        _limits.n_pixels, _limits.folder = before


def pixel_array(name: str, shape: tuple[int, int, int], dtype: DTypeLike) -> np.ndarray:
    """Return a `large_array` for the pixels of an image file, (C, H, W).

    Raises:
        TooLargeError: The array is too large for the memory. The message names the image, `name`.
    """
    if _limits.folder is None:
        check_size(name, *shape[1:], bytes_per_pixel=shape[0] * np.dtype(dtype).itemsize)
    return large_array(shape, dtype)


def large_array(shape: Sequence[int], dtype: DTypeLike) -> np.ndarray:
    """Return an array. It is in a temporary file if it is large and `pixels_allowed` names a folder."""
    if _limits.folder and prod(shape) * np.dtype(dtype).itemsize > _MAPPED_BYTES:
        return mapped_array(_limits.folder, shape, dtype)
    return np.empty(shape, dtype)


def large_copy(image: np.ndarray) -> np.ndarray:
    """Return a copy as a `large_array`."""
    copy = large_array(image.shape, image.dtype)
    copy[:] = image
    return copy


def is_too_large(height: int, width: int, bytes_per_pixel: int) -> bool:
    """Return whether an image is too large for the memory, or for `pixels_allowed`."""
    if (n_pixels := _limits.n_pixels) is not None:
        return height * width > n_pixels
    return height * width * bytes_per_pixel > memory_bytes() // _SHARE


def check_size(name: str, height: int, width: int, bytes_per_pixel: int = DECODED_BYTES) -> None:
    """Raise TooLargeError, which names the image `name`, if the image is too large."""
    if is_too_large(height, width, bytes_per_pixel):
        size, n_pixels = f"{height * width * bytes_per_pixel / 1e9:.3g} GB", _limits.n_pixels
        limit = f"{n_pixels} pixels" if n_pixels else f"a quarter of this machine's {memory_bytes() / 1e9:.3g} GB"
        raise TooLargeError(
            f"{name}: {width}x{height} pixels take {size}, more than {limit}: cut it into smaller images; test.py "
            f"also takes --max-pixels {height * width}, and reads TIFF and .npy of any size with --tile 1024"
        )
