"""Images in NumPy's files, .npy, which are read without ever unpickling objects."""

from pathlib import Path

import numpy as np

from data.batch import DataError, LoadingError
from data.files.image_files import COPY_AGAIN, MAX_PIXELS


def read_npy(path: Path, n_channels: int) -> np.ndarray:
    """Return (C, H, W) pixels of an array of the shape (H, W), (C, H, W) or (H, W, C).

    n_channels: the channels that are expected, by which the last two shapes differ.

    Raises:
        DataError: the file is missing, damaged or too large, or holds objects or an array of another shape.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)  # a damaged header cannot ask for memory
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except MemoryError as error:
        raise LoadingError(f"{path}: too little memory to read it") from error
    except (OSError, ValueError, EOFError, TypeError, SyntaxError, OverflowError) as error:
        raise DataError(f"{path}: cannot be read as an array: {_first_line(error)}; {COPY_AGAIN}") from error
    shape = tuple(array.shape)
    if array.ndim == 2:
        array = array[None]
    elif array.ndim == 3 and shape[0] != n_channels and (shape[2] == n_channels or shape[2] < shape[0]):
        array = array.transpose(2, 0, 1)
    if array.ndim != 3 or 0 in shape:
        raise DataError(f"{path}: has the shape {shape}, expected (H, W), (C, H, W) or (H, W, C)")
    if array.shape[1] * array.shape[2] > MAX_PIXELS:
        raise DataError(f"{path}: has more than {MAX_PIXELS} pixels; make it smaller")
    return np.array(array)


def write_npy(path: Path, pixels: np.ndarray) -> None:
    """Write a (C, H, W) array."""
    with path.open("wb") as file:
        np.save(file, pixels, allow_pickle=False)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
