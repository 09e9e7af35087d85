"""The samples of TIFF images as their strips or tiles store them, before photometric interpretation and orientation.

tifffile has parsed the tags. Only the strips or tiles that hold the requested rows are decoded.
"""

import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any, BinaryIO

import numpy as np
from PIL import Image

from data.batch import DataError, LoadingError
from data.files.file_errors import COPY_AGAIN, first_line
from data.files.pixel_rows import PixelRows, check_type, loaded_rows, uncompressed_rows
from data.files.size_guard import check_size

_MAX_SEGMENT_BYTES = 2**28  # of a strip or tile; with larger ones, reading rows would not save memory
_JPEG = (6, 7, 33007, 34892)  # compressions that need the tables of the page
_DECOMPRESSORS: dict[int, Any] = {8: zlib.decompressobj, 32946: zlib.decompressobj, 34925: lzma.LZMADecompressor}
_REVERSED_BITS = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@contextmanager
def tiff_errors(name: str) -> Iterator[None]:
    """Raise DataError for any error of tifffile or Pillow.

    name: Name of the file, for messages.
    """
    try:
        yield
    except MemoryError as error:
        raise LoadingError(f"{name}: too little memory to read it") from error
    except DataError:
        raise
    except Exception as error:
        text = first_line(error)
        if "imagecodecs" in text or isinstance(error, ImportError):
            codec = re.search(r"\.(\w+):", text)  # as <COMPRESSION.LZW: 5>
            what, remedy = codec[1] if codec else "it", 'python -m pip install --editable ".[tiff]"'
            raise LoadingError(f"{name}: reading {what} needs the package imagecodecs: {remedy}") from error
        raise DataError(f"{name}: cannot be read as TIFF: {text}; {COPY_AGAIN}") from error


def sample_rows(file: BinaryIO, name: str, series: Any) -> PixelRows:
    """Return the samples of a series of pages of tifffile, (C, H, W). Several pages have one channel each.

    name: Name of the file, for messages.

    Raises:
        DataError: The file is damaged, or holds more than one image.
    """
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


def _segmented_rows(series: Any, name: str, height: int, width: int) -> PixelRows | None:
    """Return the rows of the pages of a series, or None if strips or tiles are too large or do not form one image."""
    pages, first = list(series.pages), series.keyframe
    n_planes, depth, *sides, n_per_pixel = first.shaped
    n_channels = len(pages) * n_planes * n_per_pixel
    are_channels = len(pages) == 1 or n_planes * n_per_pixel == 1
    is_whole = n_channels * height * width == series.size and sides == [height, width]
    segment_width = first.tilewidth if first.is_tiled else width
    if _length(first) * segment_width > height * width:  # a tile may exceed its image, which has been checked
        check_size(name, _length(first), segment_width, n_per_pixel * first.dtype.itemsize)
    segment_bytes = _length(first) * segment_width * n_per_pixel * first.dtype.itemsize
    if depth > 1 or not are_channels or not is_whole or None in pages or segment_bytes > _MAX_SEGMENT_BYTES:
        return None
    decode = _decoder(first, segment_bytes)

    def read(top: int, bottom: int) -> np.ndarray:
        rows = np.full((len(pages) * n_planes, bottom - top, width, n_per_pixel), first.nodata, first.dtype)
        with tiff_errors(name):
            for number, page in enumerate(pages):
                for content, index in _stored_segments(page, first, top, bottom):
                    segment, (plane, _, row, column, _), _ = decode(content, index, page)
                    if segment is None:  # left out, since it holds no data
                        continue
                    begin, end = max(row, top), min(row + segment.shape[1], bottom)
                    part = segment[0, begin - row : end - row, : width - column]
                    rows[number + plane, begin - top : end - top, column : column + part.shape[1]] = part
        return rows[..., 0] if n_per_pixel == 1 else rows[0].transpose(2, 0, 1)

    return PixelRows(name, (n_channels, height, width), first.dtype, read)


def _length(page: Any) -> int:
    """Return the rows of a strip or tile."""
    return int(page.tilelength if page.is_tiled else min(page.rowsperstrip, page.imagelength))


def _stored_segments(page: Any, first: Any, top: int, bottom: int) -> Iterator[tuple[bytes | None, int]]:
    """Yield the contents of the strips or tiles of a page that hold some rows, with their indices.

    first: First page of the series, which has the layout of all.
    """
    n_planes, _, height, width, _ = first.shaped
    length = _length(first)
    across = -(-width // first.tilewidth) if first.is_tiled else 1
    per_plane = -(-height // length) * across
    wanted = range(top // length * across, -(-bottom // length) * across)
    indices = [plane * per_plane + index for plane in range(n_planes) for index in wanted]
    offsets, counts = ([values[index] for index in indices] for values in (page.dataoffsets, page.databytecounts))
    yield from page.parent.filehandle.read_segments(offsets, counts, indices)


def _decoder(first: Any, segment_bytes: int) -> Callable[[bytes | None, int, Any], Any]:
    """Return a function that decodes a strip or tile as `TiffPage.decode`, given its content, its index and its page.

    tifffile without imagecodecs would expand a few bytes to any size. The size is bounded here: the strip is expanded,
    and tifffile takes it for an uncompressed one.
    """
    decompressor, is_reversed = _DECOMPRESSORS.get(first.compression), first.fillorder == 2
    if decompressor is None:
        has_tables = first.compression in _JPEG
        return lambda content, index, page: first.decode(
            content, index, **({"jpegtables": page.jpegtables, "jpegheader": first.jpegheader} if has_tables else {})
        )
    first.compression = first.fillorder = 1

    def decode(content: bytes | None, index: int, page: Any) -> Any:
        if content is None:
            return first.decode(None, index)
        content = content.translate(_REVERSED_BITS) if is_reversed else content
        return first.decode(bytearray(decompressor().decompress(content, segment_bytes)), index)

    return decode


def decoded_by_pillow(file: BinaryIO, name: str, number: int) -> np.ndarray:
    """Return the levels of a page, (H, W) or (H, W, C), upright. Pillow has converted YCbCr to RGB, and 0 is black.

    number: Place of the page in the file, from 0.
    """
    with tiff_errors(name):
        file.seek(0)
        with Image.open(file, formats=("TIFF",)) as image:
            image.seek(number)
            image.load()
            return np.array(image)
