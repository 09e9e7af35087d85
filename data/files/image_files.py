"""Find, read and write image files. Reading returns 8-bit RGB, ids, or the channels and type of the file."""

import math
import unicodedata
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from data.batch import DataError, LoadingError
from data.files.pillow_image import PILLOW_FORMATS, PillowImage
from data.files.stored_image import NpyImage, StoredImage, UnfitError, pixel_array
from data.files.tiff_image import TiffImage, is_tiff
from data.folder import IMAGE_SUFFIXES, Blob, File, Folder, local_folder
from utils.files import path_in_errors
from utils.limits import MAX_CHANNELS
from utils.text import counted, exact, listed

_Read = TypeVar("_Read")
IMAGE_FORMATS = (*PILLOW_FORMATS, "TIFF")
ARRAY_SUFFIX = ".npy"  # arrays are read only in folders without other images
JPEG_QUALITY = 95
_PNG_LEVEL = 5  # zlib's default 6 takes longer and saves only 1 % of space
_OTHER_FILES = {
    b"version https://git-lfs": "it is a Git LFS pointer: run git lfs pull",
    b"<": "it is an HTML or XML page, perhaps from a failed download: download it again",
    b"\x1f\x8b": "it is compressed with gzip: unpack it",
    b"GIF8": "it is a GIF; save it as PNG",
    b"\x93NUMPY": "it is a NumPy array, expected an 8-bit image: save it as PNG",
}


def find_images(folder: Folder | Path, problems: list[str], if_missing: str = "") -> dict[str, Blob]:
    """Return the image files below a folder by name: the path below the folder without suffix, in Unicode NFC.

    Arrays (.npy) are used only if no file has one of IMAGE_SUFFIXES. Hidden files and links to folders are left out.

    problems: List that gets a message if the folder is missing or empty, or if two files have the same name.
    if_missing: Remedy for a missing folder. It is added to the message.

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
    """Return the paths of the image files below a local folder, by name; see `find_images`."""
    return {name: Path(str(image)) for name, image in find_images(folder, problems).items()}


def count_other_files(folders: Iterable[Folder | Path]) -> str:
    """Return a text that counts the files that `find_images` leaves out, such as "2 .gif, 1 .txt"."""
    kinds = Counter[str]()
    for folder in map(local_folder, folders):
        files = folder.files()
        taken = {image.name for image in _images(files)}
        kinds.update(file.suffix.lower() or PurePath(file.name).name for file in files if file.name not in taken)
    frequent = sorted(kinds, key=lambda kind: (-kinds[kind], kind))
    hint = " (arrays are read only if a folder holds no other images)" if ARRAY_SUFFIX in kinds else ""
    return listed([f"{kinds[kind]} {kind}" for kind in frequent], 5) + hint


def _images(files: Sequence[Blob]) -> list[Blob]:
    """Return the images among the files of a folder, sorted by path."""
    for suffixes in (IMAGE_SUFFIXES, {ARRAY_SUFFIX}):
        if images := [file for file in files if file.suffix.lower() in suffixes]:
            return sorted(images, key=lambda image: image.name.split("/"))
    return []


@contextmanager
def open_image(file: File, n_channels: int = 0) -> Iterator[StoredImage]:
    """Open an image and read its header.

    n_channels: Expected number of channels, 0: unknown. This number decides which axis of an array holds the channels.

    Raises:
        DataError: The file is missing, damaged or too large, or has an unknown format or unsuitable pixels.
        LoadingError: There is too little memory.
    """
    try:
        with warnings.catch_warnings(), file.open("rb") as opened:
            warnings.simplefilter("ignore", UserWarning)  # about damaged metadata; the pixels are intact
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
    """Read an image as (3, H, W) uint8 RGB, and turn it by its EXIF orientation.

    Only the high byte of 16-bit grey is kept. Transparency is dropped. If a file has several frames, the first is read.
    """
    with open_image(file) as image:
        return torch.from_numpy(image.rgb()).permute(2, 0, 1)


def read_ids(file: File) -> Tensor:
    """Read a map of ids as (1, H, W) int32. Ids are grey levels of 1, 8, 16 or 32 bits, or palette indices."""
    with open_image(file) as image:
        return torch.from_numpy(image.ids()).unsqueeze(0)


def seen_in(file: File, read: Callable[[StoredImage], _Read], otherwise: _Read) -> _Read:
    """Open an image and return `read(image)`, or return `otherwise` if the image cannot be read."""
    with suppress(DataError), open_image(file) as image:
        return read(image)
    return otherwise


def read_palette(file: File) -> bytes:
    """Return the RGB bytes of an image's palette, without black colours at its end. Without a palette, return b""."""
    levels = seen_in(file, lambda image: image.palette, otherwise=b"").rstrip(b"\0")
    return levels + bytes(-len(levels) % 3)


def write_jpeg(path: Path, image: Tensor) -> None:
    """Write a (3, H, W) uint8 RGB image as JPEG, quality 95, without chroma subsampling. Create missing folders."""
    _write(path, image, format="JPEG", quality=JPEG_QUALITY, subsampling=0)


def write_png(path: Path, image: Tensor) -> None:
    """Write a (C, H, W) uint8 or uint16 image as PNG: grey or RGB, with or without transparency.

    Missing folders are created. If most pixels differ from their neighbours, as in photos, zlib compresses only runs
    of equal bytes. This takes a fifth of the time, and the files are smaller.
    """
    if image.dtype == torch.uint16:  # Pillow cannot write 16-bit colours
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
    """Return the pixels as (H, W, C), or as (H, W) if there is one channel."""
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
        reason = f"it is damaged, or its format is none of {', '.join(IMAGE_FORMATS)}" if begin else "it is empty"
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    return f"{reason}; copy it again, or leave it out"


MAX_WEIGHT = 1e15  # larger values usually mean missing data, and would dominate the sum of a batch


@dataclass(frozen=True)
class StoredForm:
    """Requirements for image files that are not read as 8-bit RGB.

    n_channels: Number of channels.
    setting: Name of the setting that defines the number of channels, for messages.
    is_8_bit: Whether all files must have 8 bits. To read other types, the user must set the range of values.
    highest: Highest value of each channel in the training images; None during training.
    allows_missing: Whether NaN and infinity are accepted as pixels without data.
    """

    n_channels: int
    setting: str
    is_8_bit: bool
    highest: tuple[float, ...] | None = field(default=None, repr=False)  # not in cache keys
    allows_missing: bool = field(default=False, repr=False)


def is_8_bit_rgb(file: File) -> bool:
    """Return whether the header of an image says 8-bit grey or RGB. Also return True if the file cannot be read."""
    return seen_in(file, lambda image: image.is_8_bit_rgb, otherwise=True)


def read_pixels(file: File, n_channels: int = 0, check: Callable[[int], None] = lambda n_channels: None) -> Tensor:
    """Read an image as (C, H, W) uint8, uint16, int16 or float32.

    Other integer and float types become float32. A TIFF can have all channels on one page, or one channel per page. An
    array has the shape (H, W), (C, H, W) or (H, W, C).

    n_channels: Expected number. If the image has this number of channels plus transparency, transparency is dropped.
    check: Function that gets the number of channels. It can raise DataError before pixels are decoded.

    Raises:
        DataError: The file is missing, damaged or too large, or has too many channels.
    """
    with open_image(file, n_channels) as image:
        alpha = image.alpha if image.n_channels == n_channels + 1 else None
        n_found = image.n_channels - (alpha is not None)
        if n_found > MAX_CHANNELS:
            raise DataError(f"{file}: has {counted(n_found, 'channel')}, at most {MAX_CHANNELS} are supported")
        check(n_found)
        pixels = image.pixels()
        if alpha is not None:
            pixels = pixels[:alpha] if alpha == n_found else np.delete(pixels, alpha, axis=0)  # a slice copies nothing
        return _supported(pixels, str(file))


def read_stored(file: File, form: StoredForm) -> Tensor:
    """Read an image like `read_pixels`, but also raise DataError if it does not fit `form`."""

    def check(n_channels: int) -> None:
        if n_channels == form.n_channels:
            return
        found = counted(n_channels, "channel")
        if form.highest is not None:
            raise DataError(f"{file}: has {found}, training images have {form.n_channels}: use similar images")
        raise DataError(f"{file}: has {found}, {form.setting} is {form.n_channels}: set {form.setting}={n_channels}")

    image = read_pixels(file, form.n_channels, check)
    check_depth(image, file, form)
    return _checked_values(image, file, form)


def read_part(file: File, form: StoredForm) -> Tensor:
    """Read one image of a stack (the concatenated images of several source folders). Check it like `read_stored`.

    form: Expected pixels of the whole stack. The image can have fewer channels than the stack.
    """

    def check(n_channels: int) -> None:
        if n_channels > form.n_channels + 1:  # + 1 for transparency, which is dropped later
            found = f"has {n_channels} channels, {form.setting} is {form.n_channels} for all source folders together"
            raise DataError(f"{file}: {found}. Set {form.setting} to the number of all channels.")

    return _checked_values(read_pixels(file, check=check), file, form)


def read_weights(file: File) -> Tensor:
    """Read a weight map, (1, H, W), with a type as in `read_pixels`.

    Raises:
        DataError: See `read_pixels`, or a weight is negative, NaN or above MAX_WEIGHT.
    """

    def check(n_channels: int) -> None:
        if n_channels != 1:
            raise DataError(f"{file}: has {counted(n_channels, 'channel')}, expected 1: save the weight map as grey")

    weights = read_pixels(file, 1, check)
    values = weights.float()
    is_wrong = ~((values >= 0) & (values <= MAX_WEIGHT))
    if bool(is_wrong.any()):
        _, row, column = (int(i) for i in is_wrong.nonzero()[0])
        raise DataError(
            f"{file}: row {row}, column {column} holds {exact(values[0, row, column].numpy())} "
            f"({counted(int(is_wrong.sum()), 'such pixel')}), expected weights from 0 to {MAX_WEIGHT:g}: "
            "replace such values; 0 ignores a pixel"
        )
    return weights


def check_depth(image: Tensor, file: File, form: StoredForm, first_channel: int = 0) -> None:
    """Raise DataError if an image has 8 bits but the training images have more bits.

    first_channel: Index of the image's first channel in its stack.
    """
    highest = form.highest and max(form.highest[first_channel : first_channel + len(image)])
    if highest and highest > 255 and image.dtype == torch.uint8:
        kind = form.setting.removesuffix("_channels")
        raise DataError(
            f"{file}: holds 8 bits, training images have values up to {exact(highest)}: store it in that range, or "
            f"set {kind}_range=[0,255]"
        )


def _checked_values(image: Tensor, file: File, form: StoredForm) -> Tensor:
    """Return the image unchanged; raise DataError if `form` does not allow its type or its values."""
    if form.is_8_bit and image.dtype != torch.uint8:
        kind = form.setting.removesuffix("_channels")
        raise DataError(
            f"{file}: holds {str(image.dtype).removeprefix('torch.')}, expected 8 bits: store all files "
            f"in 8 bits, or set {kind}_range=[LOW,HIGH]"
        )
    is_checked = image.is_floating_point() and not form.allows_missing
    if is_checked and not math.isfinite(float(image.sum(dtype=torch.float64))):
        channel, row, column = (int(i) for i in (~image.isfinite()).nonzero()[0])
        value, n_pixels = float(image[channel, row, column]), int((~image.isfinite()).any(dim=0).sum())
        raise DataError(
            f"{file}: channel {channel + 1}, row {row}, column {column} holds {value}, "
            f"which is not a number ({counted(n_pixels, 'such pixel')}): replace such values, or leave the file out"
        )
    return image


def _supported(pixels: np.ndarray, name: str) -> Tensor:
    """Convert a (C, H, W) array to a tensor of one of the types in `read_pixels`."""
    wanted = {"u1": np.uint8, "u2": np.uint16, "i1": np.int16, "i2": np.int16}.get(pixels.dtype.str[1:], np.float32)
    wanted = np.uint8 if pixels.dtype.kind == "b" else wanted
    if pixels.dtype == wanted and pixels.flags.c_contiguous and pixels.flags.writeable:
        return torch.from_numpy(pixels)
    channels, height, width = pixels.shape
    result = pixel_array(name, (channels, height, width), wanted)
    with np.errstate(over="ignore"):  # too large values become infinity, which `_checked_values` reports
        result[:] = pixels
    if pixels.dtype.kind == "b":
        result *= 255
    return torch.from_numpy(result)
