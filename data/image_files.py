"""The only place that opens or writes an image file."""

import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from data.batch import DataError

IMAGE_FORMATS = ("PNG", "JPEG", "PPM", "BMP", "TIFF", "WEBP")
IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".ppm", ".bmp", ".tif", ".tiff", ".webp"})

# What Pillow's decoders raise on damaged files
_DECODING_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    MemoryError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)
_ID_MODES = ("1", "L", "P", "I", "I;16", "I;16L", "I;16B")


def find_images(folder: Path) -> dict[str, Path]:
    """Image files below `folder` by name: the path relative to it, without suffix. Hidden files are left out.

    Raises:
        DataError: `folder` is no folder, or two files have the same name.
    """
    if not folder.is_dir():
        beside = sorted(p.name for p in folder.parent.iterdir() if p.is_dir()) if folder.parent.is_dir() else []
        raise DataError(f"{folder}: no such folder; folders beside it: {', '.join(beside) or 'none'}")
    images: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in relative.parts)
        if is_hidden or path.suffix.lower() not in IMAGE_SUFFIXES or not path.is_file():
            continue
        name = relative.with_suffix("").as_posix()
        if name in images:
            raise DataError(f"{path} and {images[name].name} have the same name: keep one of them")
        images[name] = path
    return images


def read_rgb(path: Path) -> Tensor:
    """The image as (3, H, W) uint8 RGB, upright by its EXIF orientation; 16-bit grey keeps its high byte.

    Raises:
        DataError: the file is missing, damaged, too large or of an unknown format.
    """
    image = _decode(path)
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM"):  # PGM of 16 bits
        grey = (np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
        pixels = np.repeat(grey[..., None], 3, axis=2)
    elif image.mode in ("I", "F"):
        kind = "32-bit integers" if image.mode == "I" else "floating-point numbers"
        raise DataError(f"{path}: holds {kind}, expected an 8- or 16-bit image")
    else:
        pixels = np.array(image.convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1)


def read_ids(path: Path) -> Tensor:
    """The integer map as (1, H, W) int32, each value as stored: grey levels of 8, 16 or 32 bits, palette indices.

    Raises:
        DataError: as `read_rgb`, or the file holds no single integer per pixel.
    """
    image = _decode(path)
    if image.mode not in _ID_MODES:
        raise DataError(
            f"{path}: holds {image.mode} pixels, expected one integer id per pixel (8-bit, 16-bit or palette PNG)"
        )
    if image.format == "JPEG":
        raise DataError(f"{path}: JPEG changes ids when it compresses; save the map as PNG")
    return torch.from_numpy(np.asarray(image).astype(np.int32)).unsqueeze(0)


def write_png(path: Path, image: Tensor) -> None:
    """Write a (3, H, W) uint8 RGB image, and the folders above it."""
    assert image.dtype == torch.uint8, image.dtype
    assert image.dim() == 3, image.shape
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image.permute(1, 2, 0).contiguous().cpu().numpy()).save(path, format="PNG")


def _decode(path: Path) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            warnings.simplefilter("ignore", UserWarning)  # damaged metadata beside sound pixels
            with Image.open(path, formats=IMAGE_FORMATS) as image:
                image.load()
                upright = ImageOps.exif_transpose(image)
                upright.format = image.format
                return upright
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except _DECODING_ERRORS as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path}: cannot be read as an image: {reason}") from error
