"""Arrays of NumPy (.npy) as images. They are read without ever unpickling objects."""

from math import prod
from typing import BinaryIO

import numpy as np

from data.batch import DataError
from data.files.size_guard import pixel_array
from data.files.stored_image import StoredImage, UnfitError

_FORMAT = np.lib.format
_HEADERS = {1: _FORMAT.read_array_header_1_0, 2: _FORMAT.read_array_header_2_0, 3: _FORMAT.read_array_header_2_0}


class NpyImage(StoredImage):
    """An open array of the shape (H, W), (C, H, W) or (H, W, C).

    n_channels: Expected channels. They are the first or the last axis of an array.

    Raises:
        DataError: The array has another shape or type.
    """

    def __init__(self, file: BinaryIO, name: str, n_channels: int) -> None:
        version, minor = _FORMAT.read_magic(file)
        if version not in _HEADERS:
            raise DataError(f"{name}: is of .npy version {version}.{minor}, expected up to 3.0. Save it again.")
        shape, self._is_fortran, self._dtype = _HEADERS[version](file)
        if self._dtype.kind not in "buif":
            raise DataError(f"{name}: holds {self._dtype.name}, expected integers or floats")
        if len(shape) not in (2, 3) or min(shape) < 1:
            raise DataError(f"{name}: has the shape {shape}, expected (H, W), (C, H, W) or (H, W, C)")
        self._file, self._name, self._shape = file, name, shape if len(shape) == 3 else (1, *shape)
        first, _, last = self._shape
        self._is_last = len(shape) == 3 and first != n_channels and (last == n_channels or last < first)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        first, second, last = self._shape
        return (first, second) if self._is_last else (second, last)

    @property
    def n_channels(self) -> int:
        """Number of channels."""
        return self._shape[2] if self._is_last else self._shape[0]

    def rgb(self) -> np.ndarray:
        """Raise UnfitError, because arrays are only read with the type of their file."""
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
        return np.moveaxis(values, -1, 0) if self._is_last else values
