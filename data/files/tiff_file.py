"""TIFF files of any channels and types, by tifffile; Pillow reads those of 8-bit grey and RGB alone."""

import logging
import math
import zlib
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
from PIL import Image

from data.batch import DataError, LoadingError
from data.files.georeference import KEYS, PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, scaled_georeference
from data.files.pixel_rows import Bands, LoadedRows, PixelRows, UncompressedRows, check_type
from data.files.segmented_rows import SegmentedRows, tiff_errors
from data.store import File

TIFF_SUFFIXES = (".tif", ".tiff")
_STRIP_BYTES = 2**18  # before compression, as tifffile's
_MAX_CLASSIC_BYTES = 2**32 - 2**25  # of pixels, in a file whose positions have 32 bits; compression may add some
_BYTE_MODES = ("1", "L", "P", "RGB")
# of GeoTIFF 1.1, section 7.1: pixel scale, tie points, transformation, directory of keys, its numbers and its texts
GEO_TAGS = (PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, KEYS, 34736, 34737)

_GDAL_NODATA = 42113  # a number as text


class TiffPackageError(LoadingError):
    """The package that reads TIFF files is not installed."""


def holds_bytes(file: File) -> bool:
    """Return whether Pillow reads a TIFF as 8-bit grey or RGB; True for one that is missing or damaged."""
    try:
        with file.open("rb") as opened, Image.open(opened, formats=("TIFF",)) as image:
            return image.mode in _BYTE_MODES
    except Exception:  # noqa: BLE001  a kind of pixels that Pillow does not know, or a damaged file
        try:
            with file.open("rb") as opened:
                return opened.read(4) not in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
        except OSError:
            return True


def tiff_rows(file: BinaryIO, name: str) -> PixelRows:
    """Return the pixels of the first image, of which only headers are read; pages of equal form are its channels.

    name: of the file, for messages.

    Raises:
        DataError: the file is damaged, or holds more than an image.
        TiffPackageError: tifffile is not installed.
    """
    tifffile = _tifffile(f"{name}: reading it")
    with tiff_errors(name):
        series = tifffile.TiffFile(file).series[0]
        check_type(series.dtype, name)
        order, height, width = _axes(name, series), *_sides(series)
        names = series.get_axes(squeeze=True)
        if series.dataoffset is not None and "YX" in names:
            sides = series.get_shape(squeeze=True)
            before, after = sides[: names.index("Y")], sides[names.index("X") + 1 :]
            dtype = series.dtype.newbyteorder(series.parent.byteorder)
            return UncompressedRows(
                file, name, series.dataoffset, prod(before), height, width, prod(after), dtype
            )  # fmt: skip
        if (segments := SegmentedRows.of(series, name)) and segments.shape[1:] == (height, width):
            return segments

    def load() -> np.ndarray:
        with tiff_errors(name):
            return np.asarray(series.asarray(squeeze=True)).transpose(*order).reshape(-1, height, width)

    return LoadedRows(name, (series.size // (height * width), height, width), series.dtype, load)


def write_tiff(path: Path, pixels: np.ndarray, like: File | None = None, scale: float = 1.0) -> None:
    """Write (C, H, W) pixels as `write_tiff_rows`."""
    write_tiff_rows(path, Bands.of(pixels), like, scale)


def write_tiff_rows(path: Path, image: Bands, like: File | None = None, scale: float = 1.0) -> None:
    """Write an image by its rows, compressed without loss; as BigTIFF where it may have more than 4 GB.

    like: a file whose georeferencing is written too, where it is a TIFF that has any, and of this size.
    scale: sides of the image, in those of that file.

    Raises:
        TiffPackageError: tifffile is not installed.
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
    try:
        tifffile = _tifffile(f"{file}: reading it")
        with file.open("rb") as opened:
            page = tifffile.TiffFile(opened).pages[0]
            sides = [math.ceil(side * scale) for side in (page.imagelength, page.imagewidth)]
            fits = sides == [height, width]  # otherwise its pixels lie elsewhere
            found = [page.tags[code] for code in GEO_TAGS if code in page.tags] if fits else []
            values = scaled_georeference({tag.code: tag.value for tag in found}, scale)
            return [(tag.code, int(tag.dtype), tag.count, values[tag.code], True) for tag in found]
    except TiffPackageError:
        raise
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
        raise TiffPackageError(
            f'{what} needs the package tifffile: python -m pip install --editable ".[tiff]", or store the images as '
            "PNG or .npy"
        ) from error
    logging.getLogger("tifffile").setLevel(logging.CRITICAL)  # its warnings come without the name of the file
    return tifffile


def _axes(name: str, series: Any) -> list[int]:
    """Return the order of axes that brings the pixels to (C, H, W) or (H, W)."""
    names = series.get_axes(squeeze=True)
    others = [axis for axis in names if axis not in "YX"]
    if "Y" not in names or "X" not in names or len(others) > 1:
        raise DataError(f"{name}: has the shape {series.get_shape(squeeze=True)}, expected one image with its channels")
    return [names.index(axis) for axis in (*others, "Y", "X")]


def _sides(series: Any) -> tuple[int, int]:
    """Return height and width."""
    shape = dict(zip(series.get_axes(squeeze=False), series.get_shape(squeeze=False), strict=True))
    return int(shape["Y"]), int(shape["X"])
