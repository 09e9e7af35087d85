"""Find image files, and read and write images of 8 bits; data/files/pixels.py reads other pixels."""

import unicodedata
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from data.batch import DataError, LoadingError
from data.files.npy_image import NpyImage
from data.files.pillow_image import PILLOW_FORMATS, PillowImage
from data.files.stored_image import StoredImage, UnfitError
from data.files.tiff_image import TiffImage, is_tiff
from data.folder import IMAGE_SUFFIXES, Blob, File, Folder, local_folder
from utils.files import path_in_errors

_Read = TypeVar("_Read")
IMAGE_FORMATS = (*PILLOW_FORMATS, "TIFF")
ARRAY_SUFFIX = ".npy"  # arrays are images in folders without other images
JPEG_QUALITY = 95
_PNG_LEVEL = 5  # the default 6 takes longer for 1 % less space
_LISTED = 5
_OTHER_FILES = {
    b"version https://git-lfs": "it is a pointer of Git LFS: git lfs pull",
    b"<": "it is a page of HTML or XML, as a failed download leaves: download it again",
    b"\x1f\x8b": "it is compressed with gzip: unpack it",
    b"GIF8": "it is a GIF; save it as PNG",
    b"\x93NUMPY": "it is a NumPy array, expected an 8-bit image: save it as PNG",
}


def find_images(folder: Folder | Path, problems: list[str], if_missing: str = "") -> dict[str, Blob]:
    """Return the image files below a folder by name: the path below it without suffix, in Unicode's form NFC.

    If no file has one of IMAGE_SUFFIXES, arrays (.npy) are the images. Hidden files and links to folders are left out.

    problems: Gets a line if the folder is missing or empty, or if two files have one name. The first file then counts.
    if_missing: Remedy for a missing folder.

    Raises:
        DataError: A folder cannot be listed.
    """
    folder = local_folder(folder)
    if not folder.exists():
        problems.append(f"{folder}: {folder.absence()}{if_missing}")
        return {}
    images: dict[str, Blob] = {}
    for image in _images(folder.files()):
        name = unicodedata.normalize("NFC", PurePosixPath(image.name).with_suffix("").as_posix())
        if name in images:
            problems.append(f"{image} and {PurePath(images[name].name).name} have the same name: keep one of them")
        else:
            images[name] = image
    if not images:
        problems.append(f"{folder}: holds no image ({', '.join(IMAGE_FORMATS)}; links to folders are not followed)")
    return images


def find_image_paths(folder: Path, problems: list[str]) -> dict[str, Path]:
    """Return the paths of the image files below a folder of this machine by name; see `find_images`."""
    return {name: Path(str(image)) for name, image in find_images(folder, problems).items()}


def count_other_files(folders: Iterable[Folder | Path]) -> str:
    """Return the number of files below folders that `find_images` leaves out, such as "2 .gif, 1 .txt"."""
    kinds = Counter[str]()
    for folder in map(local_folder, folders):
        files = folder.files()
        taken = {image.name for image in _images(files)}
        kinds.update(file.suffix.lower() or PurePath(file.name).name for file in files if file.name not in taken)
    more = f" and {len(kinds) - _LISTED} other kinds" if len(kinds) > _LISTED else ""
    frequent = sorted(kinds, key=lambda kind: (-kinds[kind], kind))[:_LISTED]
    hint = " (arrays are read where a folder holds no other images)" if ARRAY_SUFFIX in kinds else ""
    return ", ".join(f"{kinds[kind]} {kind}" for kind in frequent) + more + hint


def _images(files: Sequence[Blob]) -> list[Blob]:
    """Return the images among the files of a folder, in order."""
    for suffixes in (IMAGE_SUFFIXES, {ARRAY_SUFFIX}):
        if images := [file for file in files if file.suffix.lower() in suffixes]:
            return sorted(images, key=lambda image: image.name.split("/"))
    return []


@contextmanager
def open_image(file: File, n_channels: int = 0) -> Iterator[StoredImage]:
    """Open an image and read its header.

    n_channels: Expected channels. An array may have them first or last.

    Raises:
        DataError: The file is missing, damaged, too large or of an unknown format, or its pixels do not fit their use.
        LoadingError: There is too little memory.
    """
    try:
        with warnings.catch_warnings(), file.open("rb") as opened:
            warnings.simplefilter("ignore", UserWarning)  # damaged metadata next to intact pixels
            if is_tiff(opened):
                yield TiffImage(opened, str(file))
            elif file.suffix.lower() == ARRAY_SUFFIX:
                yield NpyImage(opened, str(file), n_channels)
            else:
                yield PillowImage(opened, str(file))
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{file}: no such file") from error
    except UnfitError as error:
        raise DataError(f"{file}: {error}") from error
    except MemoryError as error:
        raise LoadingError(f"{file}: too little memory to read it") from error
    except Exception as error:  # decoders raise any type for damaged files
        raise DataError(f"{file}: cannot be read as an image: {_reason(error, file)}") from error


def read_rgb(file: File) -> Tensor:
    """Read an image as (3, H, W) uint8 RGB, upright by its EXIF orientation.

    16-bit grey keeps its high byte, transparency is dropped, and only the first of several frames is read.
    """
    with open_image(file) as image:
        return torch.from_numpy(image.rgb()).permute(2, 0, 1)


def read_ids(file: File) -> Tensor:
    """Read an integer map as (1, H, W) int32, as stored: grey levels of 1, 8, 16 or 32 bits, or palette indices."""
    with open_image(file) as image:
        return torch.from_numpy(image.ids()).unsqueeze(0)


def read_size(file: File) -> tuple[int, int]:
    """Return height and width of an image, upright by its EXIF orientation, from its header."""
    with open_image(file) as image:
        return image.size


def seen_in(file: File, read: Callable[[StoredImage], _Read], otherwise: _Read) -> _Read:
    """Return the result of `read` for an open image, or `otherwise` if the image cannot be read."""
    with suppress(DataError), open_image(file) as image:
        return read(image)
    return otherwise


def read_palette(file: File) -> bytes:
    """Return the palette of an image from its header, as RGB without black at its end; empty if it has none."""
    levels = seen_in(file, lambda image: image.palette, otherwise=b"").rstrip(b"\0")
    return levels + bytes(-len(levels) % 3)


def write_jpeg(path: Path, image: Tensor) -> None:
    """Write a (3, H, W) uint8 RGB image as JPEG of quality 95 with colours at full resolution; create its folders."""
    _write(path, image, format="JPEG", quality=JPEG_QUALITY, subsampling=0)


def write_png(path: Path, image: Tensor) -> None:
    """Write a (C, H, W) uint8 or uint16 image as PNG: grey or RGB, with or without transparency. Create its folders.

    If most pixels differ from their neighbours, as in photos, compression does not search for repetitions. This takes
    a fifth of the time and less space.
    """
    if image.dtype == torch.uint16:  # Pillow writes no colours of 16 bits
        from imagecodecs import png_encode

        path.parent.mkdir(parents=True, exist_ok=True)
        with path_in_errors(path):
            path.write_bytes(png_encode(_interleaved(image)))
        return
    seen = image[:, ::8]
    neighbours = (seen[1:], seen[:-1]), (seen[..., 1:], seen[..., :-1])
    repeats = any((one == other).float().mean() > 0.5 for one, other in neighbours)
    strategy = zlib.Z_DEFAULT_STRATEGY if repeats else zlib.Z_RLE
    _write(path, image, format="PNG", compress_level=_PNG_LEVEL, compress_type=strategy)


def _write(path: Path, image: Tensor, **options: Any) -> None:
    assert image.dtype == torch.uint8, image.dtype
    path.parent.mkdir(parents=True, exist_ok=True)
    with path_in_errors(path):
        Image.fromarray(_interleaved(image)).save(path, **options)


def _interleaved(image: Tensor) -> np.ndarray:
    """Return (H, W, C), or (H, W) for one channel."""
    pixels = image.permute(1, 2, 0).contiguous().cpu().numpy()
    return pixels[..., 0] if len(image) == 1 else pixels


def _reason(error: Exception, file: File) -> str:
    """Return why a file cannot be read, and the remedy."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, UnidentifiedImageError):
        with file.open("rb") as opened:
            begin = opened.read(64).lstrip(b"\xef\xbb\xbf \r\n\t")
        if other := next((what for mark, what in _OTHER_FILES.items() if begin.startswith(mark)), None):
            return other
        reason = f"it is damaged, or none of {', '.join(IMAGE_FORMATS)}" if begin else "it is empty"
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    return f"{reason}; copy it again, or leave it out"
