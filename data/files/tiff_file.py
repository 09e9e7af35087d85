"""TIFF files of any channels and types, by tifffile; Pillow reads those of 8-bit grey and RGB alone."""

import logging
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from PIL import Image

from data.batch import DataError, LoadingError
from data.files.georeference import KEYS, PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, scaled_georeference
from data.files.image_files import COPY_AGAIN, MAX_PIXELS

TIFF_SUFFIXES = (".tif", ".tiff")
_MAX_BYTES = 2**33  # of the pixels of one file: 64 channels of 32 bits at 33 megapixels
_BYTE_MODES = ("1", "L", "P", "RGB")
# of GeoTIFF 1.1, section 7.1: pixel scale, tie points, transformation, directory of keys, its numbers and its texts
GEO_TAGS = (PIXEL_SCALE, TIE_POINTS, TRANSFORMATION, KEYS, 34736, 34737)

_GDAL_NODATA = 42113  # a number as text


class TiffPackageError(LoadingError):
    """The package that reads TIFF files is not installed."""


def holds_bytes(path: Path) -> bool:
    """Return whether Pillow reads a TIFF as 8-bit grey or RGB; True for one that is missing or damaged."""
    try:
        with Image.open(path, formats=("TIFF",)) as image:
            return image.mode in _BYTE_MODES
    except Exception:  # noqa: BLE001  a kind of pixels that Pillow does not know, or a damaged file
        try:
            with path.open("rb") as file:
                return file.read(4) not in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
        except OSError:
            return True


def read_tiff(path: Path) -> np.ndarray:
    """Return the (C, H, W) pixels of the first image; pages of equal form are the channels of one.

    Raises:
        DataError: the file is missing, damaged or too large, or holds more than an image.
        TiffPackageError: tifffile is not installed.
    """
    tifffile = _tifffile(f"{path}: reading it")
    try:
        with tifffile.TiffFile(path) as file:
            series = file.series[0]
            axes = _axes(path, series)
            return np.asarray(series.asarray(squeeze=True)).transpose(*axes).reshape(-1, *_sides(series))
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except MemoryError as error:
        raise LoadingError(f"{path}: too little memory to read it") from error
    except (DataError, LoadingError):
        raise
    except Exception as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "imagecodecs" in text:
            text = f"its compression needs a package: python -m pip install imagecodecs ({text})"
        raise DataError(f"{path}: cannot be read as TIFF: {text}; {COPY_AGAIN}") from error


def write_tiff(path: Path, pixels: np.ndarray, like: Path | None = None, scale: float = 1.0) -> None:
    """Write (C, H, W) pixels, compressed without loss.

    like: a file whose georeferencing is written too, where it is a TIFF that has any, and of this size.
    scale: sides of the pixels, in those of that file.

    Raises:
        TiffPackageError: tifffile is not installed.
    """
    tifffile = _tifffile(f"{path}: writing it")
    height, width = pixels.shape[1:]
    tags = geo_tags(like, height, width, scale) if like is not None and like.suffix.lower() in TIFF_SUFFIXES else []
    is_rgb = pixels.shape[0] == 3 and pixels.dtype != np.float32
    tifffile.imwrite(
        path,
        np.ascontiguousarray(pixels.transpose(1, 2, 0)) if len(pixels) > 1 else pixels[0],
        photometric="rgb" if is_rgb else "minisblack",
        planarconfig="contig" if len(pixels) > 1 else None,
        compression="zlib",
        extratags=tags,
        metadata=None,
    )


def geo_tags(path: Path, height: int, width: int, scale: float = 1.0) -> list[tuple[int, int, int, Any, bool]]:
    """Return the georeferencing of a TIFF as tifffile's `extratags`; empty where it has none, or another size.

    height, width: `scale` times those of the TIFF, rounded up. The tags are those of an image at that scale.
    """
    try:
        with _tifffile(f"{path}: reading it").TiffFile(path) as file:
            page = file.pages[0]
            sides = [math.ceil(side * scale) for side in (page.imagelength, page.imagewidth)]
            fits = sides == [height, width]  # otherwise its pixels lie elsewhere
            found = [page.tags[code] for code in GEO_TAGS if code in page.tags] if fits else []
            values = scaled_georeference({tag.code: tag.value for tag in found}, scale)
            return [(tag.code, int(tag.dtype), tag.count, values[tag.code], True) for tag in found]
    except TiffPackageError:
        raise
    except Exception:  # noqa: BLE001  a damaged file has no tags; its pixels have been read before
        return []


def tagged_no_data(path: Path) -> float | None:
    """Return the value that a TIFF names as that of pixels without data, in GDAL's tag; None where it names none."""
    try:
        with _tifffile(f"{path}: reading it").TiffFile(path) as file:
            tag = file.pages[0].tags.get(_GDAL_NODATA)
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


def _axes(path: Path, series: Any) -> list[int]:
    """Return the order of axes that brings the pixels to (C, H, W) or (H, W)."""
    names = series.get_axes(squeeze=True)
    others = [name for name in names if name not in "YX"]
    if "Y" not in names or "X" not in names or len(others) > 1:
        raise DataError(f"{path}: has the shape {series.get_shape(squeeze=True)}, expected one image with its channels")
    height, width = _sides(series)
    if height * width > MAX_PIXELS or series.size * series.dtype.itemsize > _MAX_BYTES:
        raise DataError(f"{path}: has more than {MAX_PIXELS} pixels; make it smaller")
    return [names.index(name) for name in (*others, "Y", "X")]


def _sides(series: Any) -> tuple[int, int]:
    """Return height and width."""
    shape = dict(zip(series.get_axes(squeeze=False), series.get_shape(squeeze=False), strict=True))
    return int(shape["Y"]), int(shape["X"])
