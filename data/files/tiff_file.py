"""Writing TIFF files, and their georeferencing as of GeoTIFF 1.1, section 7.1."""

import logging
import math
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from data.batch import LoadingError
from data.files.pixel_rows import Bands
from data.store import File

TIFF_SUFFIXES = (".tif", ".tiff")
_STRIP_BYTES = 2**18  # before compression, as tifffile's
_MAX_CLASSIC_BYTES = 2**32 - 2**25  # of pixels, in a file whose positions have 32 bits; compression may add some

PIXEL_SCALE = 33550  # (x, y, z) of a pixel
TIE_POINTS = 33922  # (column, row, level, x, y, z) of each point
TRANSFORMATION = 34264  # 4 x 4, row by row, from (column, row, level, 1) to (x, y, z, 1)
KEYS = 34735  # (version, revision, minor revision, number), then (key, tag, count, value) of each key
_RASTER_TYPE, _PIXEL_IS_POINT = 1025, 2
# of GeoTIFF 1.1, section 7.1: pixel scale, tie points, transformation, directory of keys, its numbers and its texts
GEO_TAGS = (PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, KEYS, 34736, 34737)
_GDAL_NODATA = 42113  # a number as text


def write_tiff_rows(path: Path, image: Bands, like: File | None = None, scale: float = 1.0) -> None:
    """Write an image by its rows, compressed without loss; as BigTIFF where it may have more than 4 GB.

    like: a file whose georeferencing is written too, where it is a TIFF that has any, and of this size.
    scale: sides of the image, in those of that file.

    Raises:
        LoadingError: tifffile is not installed.
    """
    tifffile = tifffile_package(f"{path}: writing it")
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
    tifffile = tifffile_package(f"{file}: reading it")
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
        tifffile = tifffile_package(f"{file}: reading it")
        with file.open("rb") as opened:
            tag = tifffile.TiffFile(opened).pages[0].tags.get(_GDAL_NODATA)
            return None if tag is None else float(str(tag.value).strip("\0 "))
    except Exception:  # noqa: BLE001  no tifffile, a damaged file or tag; its pixels have been read before
        return None


def tifffile_package(what: str) -> ModuleType:
    """Return the package tifffile; raise LoadingError that names what needs it if it is not installed."""
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
