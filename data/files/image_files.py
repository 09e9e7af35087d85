"""Finding image files, and reading and writing those of 8 bits; data/files/pixels.py reads other pixels."""

import struct
import unicodedata
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, TypeVar

import numpy as np
import torch
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from PIL.ImageFile import ImageFile
from torch import Tensor

from data.batch import DataError, LoadingError
from data.files.file_errors import COPY_AGAIN, UnfitError, first_line, not_ids
from data.files.jpeg_scans import with_few_scans
from data.files.quick_decoding import decode_quickly
from data.files.size_guard import check_size
from data.files.tiff_image import TiffImage, is_tiff, open_tiff
from data.folder_store import IMAGE_SUFFIXES, local_folder
from data.store import Blob, File, Folder
from utils.atomic_file import path_in_errors

_Read = TypeVar("_Read")
IMAGE_FORMATS = ("PNG", "JPEG", "PPM", "BMP", "TIFF", "WEBP")
_PILLOW_FORMATS = tuple(name for name in IMAGE_FORMATS if name != "TIFF")
ARRAY_SUFFIX = ".npy"  # images as well, in folders that hold no others
Image.MAX_IMAGE_PIXELS = None  # check_size is the guard
JPEG_QUALITY = 95
_PNG_LEVEL = 5  # of 9; against the usual 6, contact sheets take half to nine tenths of the time and 1 % more space
_SEEN_ROWS = 8  # of as many, one is searched for repetitions
_LISTED = 5

# Pillow's decoders raise these on damaged files.
_DECODING_ERRORS = (
    *(OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError),
    *(struct.error, zlib.error),
)
_ID_MODES = ("1", "L", "P", "I", "I;16", "I;16L", "I;16B")
_OTHER_FILES = {
    b"version https://git-lfs": "it is a pointer of Git LFS: git lfs pull",
    b"<": "it is a page of HTML or XML, as a failed download leaves: download it again",
    b"\x1f\x8b": "it is compressed with gzip: unpack it",
    b"GIF8": "it is a GIF; save it as PNG",
    b"\x93NUMPY": "it is a NumPy array, expected an 8-bit image: save it as PNG",
}


def find_images(folder: Folder | Path, problems: list[str], if_missing: str = "") -> dict[str, Blob]:
    """Return the image files below a folder by name: the path below it without suffix, in Unicode's form NFC.

    The store leaves out hidden files, and does not follow links to folders. `count_other_files` counts other formats.
    If no file has one of IMAGE_SUFFIXES, arrays (.npy) are the images. Problems are appended to `problems`: the folder
    is missing or empty, or two files have the same name, of which the first is returned.
    if_missing: Remedy for a missing folder.

    Raises:
        DataError: a folder below cannot be listed.
    """
    folder = local_folder(folder)
    if not folder.store.has(folder):
        problems.append(f"{folder}: {folder.store.absence(folder)}{if_missing}")
        return {}
    images: dict[str, Blob] = {}
    for image in _images(folder.store.list(folder)):
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
    """Return how many files below folders are of other formats than `find_images` takes, as "2 .gif, 1 .txt"."""
    kinds = Counter[str]()
    for folder in map(local_folder, folders):
        files = folder.store.list(folder)
        taken = {image.name for image in _images(files)}
        kinds.update(file.suffix.lower() or PurePath(file.name).name for file in files if file.name not in taken)
    more = f" and {len(kinds) - _LISTED} other kinds" if len(kinds) > _LISTED else ""
    frequent = sorted(kinds, key=lambda kind: (-kinds[kind], kind))[:_LISTED]
    hint = " (arrays are read where a folder holds no other images)" if ARRAY_SUFFIX in kinds else ""
    return ", ".join(f"{kinds[kind]} {kind}" for kind in frequent) + more + hint


def _images(files: Sequence[Blob]) -> list[Blob]:
    """Return those of the files of a folder that are images, in order."""
    for suffixes in (IMAGE_SUFFIXES, {ARRAY_SUFFIX}):
        if images := [file for file in files if file.suffix.lower() in suffixes]:
            return sorted(images, key=lambda image: image.name.split("/"))
    return []


def read_rgb(file: File) -> Tensor:
    """Read an image as (3, H, W) uint8 RGB, upright by its EXIF orientation.

    16-bit grey keeps its high byte, transparency is dropped, and of several frames the first is read.

    Raises:
        DataError: the file is missing, damaged, too large or of an unknown format.
    """
    return torch.from_numpy(decode(file, _rgb_pixels, TiffImage.rgb)).permute(2, 0, 1)


def read_size(file: File) -> tuple[int, int]:
    """Return height and width of an image, upright by its EXIF orientation, from its header alone.

    Raises:
        DataError: as for `read_rgb`.
    """
    return decode(file, header_size, attrgetter("size"))


def read_ids(file: File) -> Tensor:
    """Read an integer map as (1, H, W) int32, as stored: grey levels of 1, 8, 16 or 32 bits, or palette indices.

    Raises:
        DataError: as for `read_rgb`, or the file does not hold one integer per pixel.
    """
    return torch.from_numpy(decode(file, _id_pixels, TiffImage.ids)).unsqueeze(0)


def has_transparent_pixels(file: File) -> bool:
    """Return whether any pixel of an image that can be read is not opaque; of most images only the header is read."""

    def is_transparent(image: ImageFile) -> bool:
        if not image.has_transparency_data or image.mode.startswith("I"):  # 16-bit grey has at most one such level
            return False
        return bool(np.asarray(image.convert("RGBA").getchannel("A")).min() < 255)

    return decode_or(file, is_transparent, TiffImage.has_transparent_pixels, otherwise=False)


def read_palette(file: File) -> bytes:
    """Return the palette of an image from its header, as RGB without black at its end; empty where none can be read."""

    def palette(image: ImageFile) -> bytes:
        if image.mode != "P" or image.palette is None:
            return b""
        raw_mode, colors = image.palette.getdata()
        holder = Image.new("P", (1, 1))
        holder.putpalette(colors, raw_mode)
        return bytes(holder.getpalette("RGB") or ())

    def tiff_palette(image: TiffImage) -> bytes:
        return b"" if image.colors.palette is None else image.colors.palette.tobytes()

    levels = decode_or(file, palette, tiff_palette, otherwise=b"").rstrip(b"\0")
    return levels + bytes(-len(levels) % 3)


def read_bits(file: File) -> int | None:
    """Return the bits of a channel of an image from its header: 8, 16 or 32; None where it cannot be read."""

    def bits(image: ImageFile) -> int:
        parameters = image.tile[0].args if image.tile else ()
        is_wide_ppm = image.format == "PPM" and isinstance(parameters, tuple) and parameters[-1] > 255
        if image.mode.startswith("I;16") or raw_mode(image).endswith((";16B", ";16L", ";16N")) or is_wide_ppm:
            return 16
        return 32 if image.mode in ("I", "F") else 8

    def tiff_bits(image: TiffImage) -> int:
        return next(bits for bits in (8, 16, 32) if image.colors.bits <= bits or bits == 32)

    return decode_or(file, bits, tiff_bits, otherwise=None)


def write_jpeg(path: Path, image: Tensor) -> None:
    """Write a (3, H, W) uint8 RGB image as JPEG of quality 95 with colours at full resolution; create its folders."""
    _write(path, image, format="JPEG", quality=JPEG_QUALITY, subsampling=0)


def write_png(path: Path, image: Tensor) -> None:
    """Write a (3, H, W) RGB image or (1, H, W) ids, uint8, as PNG; create its folders.

    Without a search for repetitions, a colour photo takes a fifth of the time and 4 % less space. Drawings, ids and
    grey RGB would grow: of these, most pixels or levels equal their neighbour.
    """
    seen = image[:, ::_SEEN_ROWS]
    neighbours = (seen[1:], seen[:-1]), (seen[..., 1:], seen[..., :-1])
    repeats = any((one == other).float().mean() > 0.5 for one, other in neighbours)
    strategy = zlib.Z_DEFAULT_STRATEGY if repeats else zlib.Z_RLE
    _write(path, image, format="PNG", compress_level=_PNG_LEVEL, compress_type=strategy)


def _write(path: Path, image: Tensor, **options: Any) -> None:
    assert image.dtype == torch.uint8, image.dtype
    assert image.dim() == 3, image.shape
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = image.permute(1, 2, 0).contiguous().cpu().numpy()
    with path_in_errors(path):
        Image.fromarray(pixels[..., 0] if len(image) == 1 else pixels).save(path, **options)


def decode(file: File, read: Callable[[ImageFile], _Read], read_tiff: Callable[[TiffImage], _Read]) -> _Read:
    """Return what `read` takes from an image that Pillow opens, or `read_tiff` from a TIFF; both may raise UnfitError.

    Raises:
        DataError: as for `read_rgb`.
    """
    with image_errors(file), file.open("rb") as opened:
        if is_tiff(opened):
            return read_tiff(open_tiff(opened, str(file)))
        with open_with_pillow(opened, file) as image:
            return read(image)


@contextmanager
def image_errors(file: File) -> Iterator[None]:
    """Raise DataError for errors of opening and decoding a file, and LoadingError if there is too little memory."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # damaged metadata next to intact pixels
            yield
    except FileNotFoundError as error:
        raise DataError(f"{file}: no such file") from error
    except UnfitError as error:
        raise DataError(f"{file}: {error}") from error
    except MemoryError as error:
        raise LoadingError(f"{file}: too little memory to read it") from error
    except _DECODING_ERRORS as error:
        raise DataError(f"{file}: cannot be read as an image: {_reason(error, file)}") from error


def open_with_pillow(opened: BinaryIO, file: File) -> ImageFile:
    """Read only the header of an open file; raise TooLargeError if its pixels do not fit into memory."""
    opened.seek(0)
    image = Image.open(with_few_scans(opened), formats=_PILLOW_FORMATS)
    check_size(str(file), image.height, image.width)
    return image


def decode_or(
    file: File,
    read: Callable[[ImageFile], _Read],
    read_tiff: Callable[[TiffImage], _Read],
    *,
    otherwise: _Read,
) -> _Read:
    """Return what `decode` does, or `otherwise` for an image that cannot be read: reading its pixels says why."""
    with suppress(DataError):
        return decode(file, read, read_tiff)
    return otherwise


def raw_mode(image: ImageFile) -> str:
    """Return the layout of the pixels in a file that is not loaded yet, as Pillow names it; empty where it has none."""
    arguments = image.tile[0].args if image.tile else ""
    name: Any = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return name if isinstance(name, str) else ""


def _rgb_pixels(file_image: ImageFile) -> np.ndarray:
    """Return (H, W, 3) uint8."""
    if file_image.mode == "RGB" and (pixels := decode_quickly(file_image, raw_mode(file_image))) is not None:
        return pixels
    image = upright(file_image)
    if is_16_bit_grey(image):
        grey = (np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
        return np.repeat(grey[..., None], 3, axis=2)
    if image.mode in ("I", "F"):
        values = "32-bit integers" if image.mode == "I" else "floating-point numbers"
        raise UnfitError(f"holds {values}, expected an 8- or 16-bit image")
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def is_16_bit_grey(image: Image.Image) -> bool:
    """Return whether a loaded image has one channel of 16 bits; Pillow gives that of a PGM 32 bits."""
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM")


def header_size(image: ImageFile) -> tuple[int, int]:
    """Return height and width of an image, upright if its orientation is in the header."""
    if image.format != "PNG" or "exif" in image.info:  # otherwise Pillow decodes a PNG to look for EXIF
        with suppress(*_DECODING_ERRORS):
            if image.getexif().get(ExifTags.Base.Orientation) in (5, 6, 7, 8):
                return image.width, image.height
    return image.height, image.width


def _id_pixels(image: ImageFile) -> np.ndarray:
    """Return (H, W) int32."""
    if image.mode not in _ID_MODES:
        raise not_ids(image.mode)
    if image.format in ("JPEG", "MPO"):
        raise UnfitError("JPEG changes ids when it compresses; save the map as PNG")
    if _is_rescaled(image):
        raise UnfitError("holds grey levels that Pillow would rescale, not ids; save the map as 8- or 16-bit PNG")
    pixels = decode_quickly(image, raw_mode(image))
    return (np.asarray(upright(image)) if pixels is None else pixels).astype(np.int32)


def _is_rescaled(image: ImageFile) -> bool:
    """Return whether Pillow rescales the grey levels of a file that is not loaded yet.

    It rescales those of 2 and 4 bits, and those of a PGM with a maximum that is not the maximum of its type.
    """
    decoder, _, _, parameters = image.tile[0]
    if decoder in ("ppm", "ppm_plain"):
        return isinstance(parameters, tuple) and parameters[-1] not in (255, 65535)
    return raw_mode(image).startswith(("L;2", "L;4"))


def upright(image: ImageFile) -> Image.Image:
    """Load an image and turn it by its EXIF orientation."""
    if 0 in image.size:
        raise UnfitError("holds no pixel")
    image.load()
    with suppress(*_DECODING_ERRORS):  # of damaged EXIF
        ImageOps.exif_transpose(image, in_place=True)
    return image


def _reason(error: Exception, file: File) -> str:
    """Return why a file cannot be read, and the remedy."""
    reason = first_line(error)
    if isinstance(error, UnidentifiedImageError):
        with file.open("rb") as opened:
            begin = opened.read(64).lstrip(b"\xef\xbb\xbf \r\n\t")
        if other := next((what for mark, what in _OTHER_FILES.items() if begin.startswith(mark)), None):
            return other
        reason = f"it is damaged, or none of {', '.join(IMAGE_FORMATS)}" if begin else "it is empty"
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    return f"{reason}; {COPY_AGAIN}"
