"""Reading TIFF files of any channels and types, by tifffile; Pillow reads those of 8-bit grey and RGB alone.

Of compressed or tiled pixels, only the strips or tiles that hold the rows that are read are decoded.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import prod
from typing import Any, BinaryIO

import numpy as np
from PIL import Image

from data.batch import DataError, LoadingError
from data.files.image_files import COPY_AGAIN, first_line
from data.files.pixel_rows import PixelRows, check_type, loaded_rows, uncompressed_rows
from data.files.tiff_tags import tifffile_package
from data.store import File

_BYTE_MODES = ("1", "L", "P", "RGB")
_MAX_SEGMENT_BYTES = 2**28  # of a strip or tile; with larger ones, reading rows would not save memory
_JPEG = (6, 7, 33007, 34892)  # compressions that need the tables of the page


def holds_bytes(file: File) -> bool:
    """Return whether Pillow reads a TIFF as 8-bit grey or RGB; True for one that is missing or damaged."""
    try:
        with file.open("rb") as opened, Image.open(opened, formats=("TIFF",)) as image:
            return image.mode in _BYTE_MODES
    except Exception:  # noqa: BLE001  a kind of pixels that Pillow does not know, or a damaged file
        with suppress(OSError), file.open("rb") as opened:
            return opened.read(4) not in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
        return True


def tiff_rows(file: BinaryIO, name: str) -> PixelRows:
    """Return the pixels of the first image, of which only headers are read.

    Its channels may be pages of equal size and type. name: of the file, for messages.

    Raises:
        DataError: the file is damaged, or holds more than an image.
        LoadingError: tifffile is not installed.
    """
    tifffile = tifffile_package(f"{name}: reading it")
    with tiff_errors(name):
        series = tifffile.TiffFile(file).series[0]
        check_type(series.dtype, name)
        names, sides = series.get_axes(squeeze=True), series.get_shape(squeeze=True)
        others = [axis for axis in names if axis not in "YX"]
        if "Y" not in names or "X" not in names or len(others) > 1:
            raise DataError(f"{name}: has the shape {sides}, expected one image with its channels")
        height, width = (int(sides[names.index(axis)]) for axis in "YX")
        if series.dataoffset is not None and "YX" in names:
            return uncompressed_rows(
                file,
                name,
                n_planes=prod(sides[: names.index("Y")]),
                height=height,
                width=width,
                n_per_pixel=prod(sides[names.index("X") + 1 :]),
                dtype=series.dtype.newbyteorder(series.parent.byteorder),
                start=series.dataoffset,
            )
        if segments := _segmented_rows(series, name, height, width):
            return segments

    def load() -> np.ndarray:
        order = [names.index(axis) for axis in (*others, "Y", "X")]
        with tiff_errors(name):
            return np.asarray(series.asarray(squeeze=True)).transpose(*order).reshape(-1, height, width)

    return loaded_rows(name, (series.size // (height * width), height, width), series.dtype, load)


@contextmanager
def tiff_errors(name: str) -> Iterator[None]:
    """Raise DataError for what tifffile raises; name: of the file, for messages."""
    try:
        yield
    except MemoryError as error:
        raise LoadingError(f"{name}: too little memory to read it") from error
    except DataError:
        raise
    except Exception as error:
        text = first_line(error)
        if "imagecodecs" in text:
            text = f"its compression needs a package: python -m pip install imagecodecs ({text})"
        raise DataError(f"{name}: cannot be read as TIFF: {text}; {COPY_AGAIN}") from error


def _segmented_rows(series: Any, name: str, height: int, width: int) -> PixelRows | None:
    """Return the rows of the pages of a series of tifffile; several pages have one channel each.

    None where strips or tiles are too large, or no parts of one image of these sides.
    """
    pages, first = list(series.pages), series.keyframe
    n_planes, depth, *sides, n_per_pixel = first.shaped
    n_channels = len(pages) * n_planes * n_per_pixel
    are_channels = len(pages) == 1 or n_planes * n_per_pixel == 1
    is_whole = n_channels * height * width == series.size and sides == [height, width]
    segment_width = first.tilewidth if first.is_tiled else width
    segment_bytes = _length(first) * segment_width * n_per_pixel * first.dtype.itemsize
    if depth > 1 or not are_channels or not is_whole or None in pages or segment_bytes > _MAX_SEGMENT_BYTES:
        return None

    def read(top: int, bottom: int) -> np.ndarray:
        rows = np.full((n_channels, bottom - top, width), first.nodata, first.dtype)
        with tiff_errors(name):
            for number, page in enumerate(pages):
                for segment, channel, row, column in _segments(page, top, bottom):
                    begin, end = max(row, top), min(row + len(segment), bottom)
                    part = segment[begin - row : end - row, : width - column].transpose(2, 0, 1)
                    channels = slice(number + channel, number + channel + len(part))
                    rows[channels, begin - top : end - top, column : column + part.shape[2]] = part
        return rows

    return PixelRows(name, (n_channels, height, width), first.dtype, read)


def _length(page: Any) -> int:
    """Return the rows of a strip or tile."""
    return int(page.tilelength if page.is_tiled else min(page.rowsperstrip, page.imagelength))


def _segments(page: Any, top: int, bottom: int) -> Iterator[tuple[np.ndarray, int, int, int]]:
    """Yield the strips or tiles of a page that hold some rows, (h, w, C), with their first channel, row and column.

    Those that a file leaves out, since they hold no data, are left out.
    """
    keyframe = page.keyframe
    n_planes, _, height, width, _ = keyframe.shaped
    length = _length(keyframe)
    across = -(-width // keyframe.tilewidth) if keyframe.is_tiled else 1
    per_plane = -(-height // length) * across
    wanted = range(top // length * across, -(-bottom // length) * across)
    indices = [plane * per_plane + index for plane in range(n_planes) for index in wanted]
    offsets, counts = ([values[index] for index in indices] for values in (page.dataoffsets, page.databytecounts))
    options = {}
    if keyframe.compression in _JPEG:
        options = {"jpegtables": page.jpegtables, "jpegheader": keyframe.jpegheader}
    for data, index in page.parent.filehandle.read_segments(offsets, counts, indices):
        segment, (plane, _, row, column, _), _ = keyframe.decode(data, index, **options)
        if segment is not None:
            yield segment[0], plane, row, column
