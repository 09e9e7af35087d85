"""Arrays in temporary files, for images that do not fit in memory."""

import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import Tensor

_STRIP_PIXELS = 2**22


def mapped_array(folder: Path, shape: Sequence[int], dtype: DTypeLike) -> np.ndarray:
    """Return an array that is mapped to an unnamed temporary file in `folder`. The file is deleted with the array.

    Raise OSError if the disk has too little space.
    """
    n_bytes = prod(shape) * np.dtype(dtype).itemsize
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            if hasattr(os, "posix_fallocate"):  # reserve space now: a full disk would kill the process later
                os.posix_fallocate(file.fileno(), 0, n_bytes)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                error.strerror, error.filename = "no space left for temporary files of --tile", str(folder)
            raise
        return np.asarray(np.memmap(file, dtype, "r+", shape=tuple(shape)))


def mapped_tensor(folder: Path, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return a tensor on the CPU that is mapped to a temporary file; see `mapped_array`."""
    n_bytes = prod(shape) * dtype.itemsize
    return torch.from_numpy(mapped_array(folder, (n_bytes,), np.uint8)).view(dtype).view(*shape)


def strips(height: int, width: int) -> Iterator[slice]:
    """Yield slices of successive rows of an image, each of about 4 million pixels."""
    n_rows = max(1, _STRIP_PIXELS // width)
    return (slice(top, min(top + n_rows, height)) for top in range(0, height, n_rows))
