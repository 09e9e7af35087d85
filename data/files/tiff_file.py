"""TIFF files of any channels and types, by tifffile; Pillow reads those of 8-bit grey and RGB alone.

Of compressed or tiled pixels, only the strips or tiles that hold the rows that are read are decoded. Georeferencing is
that of GeoTIFF 1.1, section 7.1.
"""

import logging
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
from PIL import Image

from data.batch import DataError, LoadingError
from data.files.image_files import COPY_AGAIN, first_line
from data.files.pixel_rows import Bands, PixelRows, check_type, loaded_rows, uncompressed_rows
from data.store import File

TIFF_SUFFIXES = (".tif", ".tiff")
_STRIP_BYTES = 2**18  # before compression, as tifffile's
_MAX_CLASSIC_BYTES = 2**32 - 2**25  # of pixels, in a file whose positions have 32 bits; compression may add some
_BYTE_MODES = ("1", "L", "P", "RGB")
_MAX_SEGMENT_BYTES = 2**28  # of a strip or tile; with larger ones, reading rows would not save memory
_JPEG = (6, 7, 33007, 34892)  # compressions that need the tables of the page

PIXEL_SCALE = 33550  # (x, y, z) of a pixel
TIE_POINTS = 33922  # (column, row, level, x, y, z) of each point
TRANSFORMATION = 34264  # 4 x 4, row by row, from (column, row, level, 1) to (x, y, z, 1)
KEYS = 34735  # (version, revision, minor revision, number), then (key, tag, count, value) of each key
_RASTER_TYPE, _PIXEL_IS_POINT = 1025, 2
# of GeoTIFF 1.1, section 7.1: pixel scale, tie points, transformation, directory of keys, its numbers and its texts
GEO_TAGS = (PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, KEYS, 34736, 34737)
_GDAL_NODATA = 42113  # a number as text


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
    tifffile = _tifffile(f"{name}: reading it")
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


def write_tiff_rows(path: Path, image: Bands, like: File | None = None, scale: float = 1.0) -> None:
    """Write an image by its rows, compressed without loss; as BigTIFF where it may have more than 4 GB.

    like: a file whose georeferencing is written too, where it is a TIFF that has any, and of this size.
    scale: sides of the image, in those of that file.

    Raises:
        LoadingError: tifffile is not installed.
    """
    tifffile = _tifffile(f"{path}: writing it")
    (n_channels, height, width), dtype = image.shape, image.dtype.newbyteorder("<")
    tags = geo_tags(like, height, width, scale) if like is not None and like.suffix.lower() in TIFF_SUFFIXES else []
    is_rgb = n_channels == 3 and dtype != np.float32
    row_bytes = n_channels * width * dtype.itemsize
    n_rows = max(1, _STRIP_BYTES // row_bytes)
    strips = (np.ascontiguousarray(strip.transpose(1, 2, 0), dtype) for strip in image.strips(n_rows))
    tifffile.imwrite(
        path,
        (zlib.compress(strip.data) for strip in strips),
        shape=(height, width, n_channels) if n_channels > 1 else (height, width),
        dtype=dtype,
        byteorder="<",
        bigtiff=height * row_bytes > _MAX_CLASSIC_BYTES,
        rowsperstrip=n_rows,
        photometric="rgb" if is_rgb else "minisblack",
        planarconfig="contig" if n_channels > 1 else None,
        compression="zlib",
        extratags=tags,
        metadata=None,
    )


def geo_tags(file: File, height: int, width: int, scale: float = 1.0) -> list[tuple[int, int, int, Any, bool]]:
    """Return the georeferencing of a TIFF as tifffile's `extratags`; empty where it has none, or another size.

    height, width: `scale` times those of the TIFF, rounded up. The tags are those of an image at that scale.
    """
    tifffile = _tifffile(f"{file}: reading it")
    try:
        with file.open("rb") as opened:
            page = tifffile.TiffFile(opened).pages[0]
            sides = [math.ceil(side * scale) for side in (page.imagelength, page.imagewidth)]
            fits = sides == [height, width]  # otherwise its pixels lie elsewhere
            found = [page.tags[code] for code in GEO_TAGS if code in page.tags] if fits else []
            values = scaled_georeference({tag.code: tag.value for tag in found}, scale)
            return [(tag.code, int(tag.dtype), tag.count, values[tag.code], True) for tag in found]
    except Exception:  # noqa: BLE001  a damaged file has no tags; its pixels have been read before
        return []


def tagged_no_data(file: File) -> float | None:
    """Return the value that a TIFF names as that of pixels without data, in GDAL's tag; None where it names none."""
    try:
        tifffile = _tifffile(f"{file}: reading it")
        with file.open("rb") as opened:
            tag = tifffile.TiffFile(opened).pages[0].tags.get(_GDAL_NODATA)
            return None if tag is None else float(str(tag.value).strip("\0 "))
    except Exception:  # noqa: BLE001  no tifffile, a damaged file or tag; its pixels have been read before
        return None


def _tifffile(what: str) -> ModuleType:
    try:
        import tifffile
    except ModuleNotFoundError as error:
        raise LoadingError(
            f'{what} needs the package tifffile: python -m pip install --editable ".[tiff]", or store the images as '
            "PNG or .npy"
        ) from error
    logging.getLogger("tifffile").setLevel(logging.CRITICAL)  # its warnings come without the name of the file
    return tifffile


def scaled_georeference(tags: Mapping[int, Any], scale: float) -> dict[int, Any]:
    """Return the values of GeoTIFF tags, by code, for an image of `scale` times the sides that covers the same area.

    Positions in a raster count from the upper left corner of its first pixel, or, where pixels are points, from the
    middle of that pixel.
    """
    if scale == 1:
        return dict(tags)
    keys = _groups(tags.get(KEYS, ()), 4)[1:]
    is_point = any(key == _RASTER_TYPE and value == _PIXEL_IS_POINT for key, _, _, value in keys)
    before = 0.5 if is_point else 0.0  # pixels between the corner and where positions count from
    scaled = dict(tags)
    if PIXEL_SCALE in tags:
        x, y, *others = tags[PIXEL_SCALE]
        scaled[PIXEL_SCALE] = (x / scale, y / scale, *others)
    if TIE_POINTS in tags:
        scaled[TIE_POINTS] = tuple(
            value
            for column, row, *others in _groups(tags[TIE_POINTS], 6)
            for value in ((column + before) * scale - before, (row + before) * scale - before, *others)
        )
    if TRANSFORMATION in tags:
        shift = before / scale - before  # position 0 of the scaled image, in the image as it is
        scaled[TRANSFORMATION] = tuple(
            value
            for x, y, level, offset in _groups(tags[TRANSFORMATION], 4)
            for value in (x / scale, y / scale, level, offset + (x + y) * shift)
        )
    return scaled


def _groups(values: Sequence[Any], length: int) -> list[Sequence[Any]]:
    """Return successive groups of `length` values, without an incomplete one at the end."""
    return [values[start : start + length] for start in range(0, len(values) - length + 1, length)]
