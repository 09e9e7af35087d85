"""Images in NumPy's files, .npy, which are read without ever unpickling objects."""

from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np

from data.batch import DataError
from data.files.image_files import COPY_AGAIN, first_line
from data.files.pixel_rows import Bands, PixelRows, check_type, loaded_rows, uncompressed_rows

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def npy_rows(file: BinaryIO, name: str, n_channels: int) -> PixelRows:
    """Return the pixels of an array of the shape (H, W), (C, H, W) or (H, W, C), of which only the header is read.

    name: of the file, for messages.
    n_channels: the channels that are expected, by which the last two shapes differ.

    Raises:
        DataError: the file is damaged or cut off, or holds an array of another shape or type.
    """
    try:
        shape, is_fortran, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
    except (OSError, ValueError, EOFError, TypeError, SyntaxError, OverflowError, KeyError) as error:
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
        file.seek(start)
        values = np.frombuffer(file.read(prod(shape) * dtype.itemsize), dtype).reshape(shape, order="F").copy()
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
