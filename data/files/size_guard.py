"""The guard against images that do not fit into the memory: a file of a few bytes can expand to more than any holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from data.batch import DataError
from utils.machine import memory_bytes

DECODED_BYTES = 4  # of a pixel that Pillow decodes
_SHARE = 4  # reading takes several times the memory of the pixels


class TooLargeError(DataError):
    """An image is too large to be read at once."""


@dataclass
class _Guard:
    allowed: int | None = None  # pixels


_guard = _Guard()


@contextmanager
def pixels_allowed(n_pixels: int | None) -> Iterator[None]:
    """Let this process read images of up to `n_pixels` at once; None: of what fits into a quarter of the memory."""
    before, _guard.allowed = _guard.allowed, n_pixels
    try:
        yield
    finally:
        _guard.allowed = before


def is_too_large(height: int, width: int, bytes_per_pixel: int) -> bool:
    """Return whether an image is not to be in memory at once."""
    if _guard.allowed is not None:
        return height * width > _guard.allowed
    return height * width * bytes_per_pixel > memory_bytes() // _SHARE


def check_size(name: str, height: int, width: int, bytes_per_pixel: int = DECODED_BYTES) -> None:
    """Raise TooLargeError if an image, named `name` in the message, is not to be read at once."""
    if is_too_large(height, width, bytes_per_pixel):
        size = f"{height * width * bytes_per_pixel / 1e9:.3g} GB"
        limit = (
            f"{_guard.allowed} pixels"
            if _guard.allowed
            else f"a quarter of this machine's {memory_bytes() / 1e9:.3g} GB"
        )
        raise TooLargeError(
            f"{name}: {width}x{height} pixels take {size}, more than {limit}: cut it into smaller images; test.py "
            f"also takes --max-pixels {height * width}, and reads TIFF and .npy in parts with --tile 1024"
        )
