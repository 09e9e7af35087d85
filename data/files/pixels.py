"""Reading images with the channels and the type that they are stored with: 8 or 16 bits, integers or floats."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import BinaryIO

import numpy as np
import torch
from PIL.ImageFile import ImageFile
from torch import Tensor

from data.batch import DataError
from data.files.image_files import (
    ARRAY_SUFFIX,
    decode_or,
    header_size,
    image_errors,
    is_16_bit_grey,
    open_with_pillow,
    raw_mode,
    upright,
)
from data.files.pixel_rows import PixelRows, loaded_rows, npy_rows
from data.files.tiff_image import is_tiff, open_tiff
from data.files.tiff_tags import TIFF_SUFFIXES
from data.store import File
from utils.limits import MAX_CHANNELS
from utils.text import counted, exact

ROW_SUFFIXES = (ARRAY_SUFFIX, *TIFF_SUFFIXES)
"""Suffixes of the files that can be read row by row."""
MAX_WEIGHT = 1e15  # larger numbers stand for missing values, and the sum of a batch would lose or overflow the others
_MOST_IN_8_BITS = 255
_BANDS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}  # channels of modes
_ALPHA = {"LA": 1, "RGBA": 3}  # channels of modes with transparency, without it


@dataclass(frozen=True)
class StoredForm:
    """The pixels that the images of one side of a data set are to have, where they are not read as 8-bit RGB.

    n_channels: their number of channels.
    setting: the name of the setting that holds it, for messages.
    is_8_bit: whether files of another type are refused, because no range is known for their values.
    allows_missing: Whether NaN and infinity, which stand for pixels without data, are read. The reader fills them.
    highest: the highest value of each channel that a trained network knows; None where the files are those of the
        training.
    """

    n_channels: int
    setting: str
    is_8_bit: bool
    highest: tuple[float, ...] | None = field(default=None, repr=False)  # caches know a sample by the other fields
    allows_missing: bool = field(default=False, repr=False)


def is_8_bit_rgb(file: File) -> bool:
    """Return whether an image has 8 bits and is grey or in colours, as photographs are; only the header is read.

    A file that cannot be read counts as one: reading its pixels will say why.
    """
    if file.suffix.lower() == ARRAY_SUFFIX:
        return False
    return decode_or(file, _has_8_bits, attrgetter("is_8_bit_rgb"), otherwise=True)


def read_stored(file: File, form: StoredForm) -> Tensor:
    """Read an image as (C, H, W) uint8, uint16, int16 or float32.

    Other integers and floats become float32. Transparency is dropped where one channel less is expected. A TIFF may
    hold its channels in each pixel, or one to a page; an array has the shape (H, W), (C, H, W) or (H, W, C).

    Raises:
        DataError: the file is missing, damaged or too large, has other channels, or holds NaN or infinity.
    """
    with pixel_rows(file, form.n_channels) as rows:
        _check_channels(rows.shape[0], file, form)
        return _checked(supported(rows.read_whole()), file, form)


def _checked(image: Tensor, file: File, form: StoredForm, top: int = 0) -> Tensor:
    check_depth(image, file, form)
    return checked_values(image, file, form, top)


@dataclass(frozen=True)
class StoredRows:
    """An open TIFF or array of `height` x `width` pixels, of which rows are read as `read_stored` reads an image.

    read: returns rows `top` to `bottom - 1` as (C, h, W); raises DataError where the file is damaged, or holds values
        that `read_stored` refuses.
    """

    height: int
    width: int
    read: Callable[[int, int], Tensor]


@contextmanager
def stored_rows(file: File, form: StoredForm) -> Iterator[StoredRows]:
    """Open a file of ROW_SUFFIXES, of which only headers are read.

    Raises:
        DataError: the file is missing or damaged, or has other channels.
    """
    with pixel_rows(file, form.n_channels) as rows:
        n_channels, height, width = rows.shape
        _check_channels(n_channels, file, form)

        def read(top: int, bottom: int) -> Tensor:
            return _checked(supported(rows.read(top, bottom)), file, form, top)

        yield StoredRows(height, width, read)


def _check_channels(n_channels: int, file: File, form: StoredForm) -> None:
    """Raise DataError unless a file has the expected number of channels."""
    if n_channels == form.n_channels:
        return
    found = counted(n_channels, "channel")
    if form.highest is not None:
        raise DataError(f"{file}: has {found}, the training images {form.n_channels}: give images like those")
    raise DataError(f"{file}: has {found}, {form.setting} is {form.n_channels}: set {form.setting}={n_channels}")


def check_depth(image: Tensor, file: File, form: StoredForm, first_channel: int = 0) -> None:
    """Raise DataError if an image of 8 bits is meant for a network that was trained on more.

    first_channel: the channel of a stack that is the first of the image.
    """
    highest = form.highest and max(form.highest[first_channel : first_channel + len(image)])
    if highest and highest > _MOST_IN_8_BITS and image.dtype == torch.uint8:
        kind = form.setting.removesuffix("_channels")
        raise DataError(
            f"{file}: holds 8 bits, the training images values up to {exact(highest)}: store it as those, or set "
            f"{kind}_range=[0,255]"
        )


def read_pixels(file: File, n_channels: int) -> Tensor:
    """Read an image of any channels and values as `read_stored` does.

    n_channels: of which transparency is dropped where one channel less is expected; 0 keeps it.

    Raises:
        DataError: the file is missing, damaged or too large.
    """
    with pixel_rows(file, n_channels) as rows:
        return supported(rows.read_whole())


@contextmanager
def pixel_rows(file: File, n_channels: int) -> Iterator[PixelRows]:
    """Open an image of any channels and values. Only its header is read, so that a caller can check the channels.

    n_channels: Expected channels. Transparency is dropped if one channel less is expected; 0 keeps it.

    Raises:
        DataError: The file is missing or damaged, or has too many channels.
    """
    with image_errors(file):
        opened = file.open("rb")
    with opened:
        with image_errors(file):
            if file.suffix.lower() == ARRAY_SUFFIX:
                rows = npy_rows(opened, str(file), n_channels)
            elif is_tiff(opened):
                rows = open_tiff(opened, str(file)).rows(n_channels)
            else:
                rows = _pillow_rows(opened, file, n_channels)
        if rows.shape[0] > MAX_CHANNELS:
            raise DataError(f"{file}: has {counted(rows.shape[0], 'channel')}, up to {MAX_CHANNELS} are read")
        yield rows


def count_channels(file: File) -> int:
    """Return the channels of an image, with transparency, from its header; raise DataError if it cannot be read."""
    with pixel_rows(file, 0) as rows:
        return rows.shape[0]


def checked_values(image: Tensor, file: File, form: StoredForm, top: int = 0) -> Tensor:
    """Return an image; raise DataError if it has another type than expected, or holds NaN or infinity.

    top: the row of the file that is the first.
    """
    if form.is_8_bit and image.dtype != torch.uint8:
        kind = form.setting.removesuffix("_channels")
        raise DataError(
            f"{file}: holds {str(image.dtype).removeprefix('torch.')}, expected 8 bits as the others: store all files "
            f"alike, or set {kind}_range=[LOW,HIGH]"
        )
    is_checked = image.is_floating_point() and not form.allows_missing
    if is_checked and not math.isfinite(float(image.sum(dtype=torch.float64))):
        channel, row, column = (int(i) for i in (~image.isfinite()).nonzero()[0])
        value, n_pixels = float(image[channel, row, column]), int((~image.isfinite()).any(dim=0).sum())
        raise DataError(
            f"{file}: channel {channel + 1}, row {top + row}, column {column} holds {value}, "
            f"which is no number ({counted(n_pixels, 'such pixel')}): replace such values, or leave the file out"
        )
    return image


def read_weights(file: File) -> Tensor:
    """Read a map of weights as (1, H, W) uint8, uint16, int16 or float32, as it is stored.

    Raises:
        DataError: the file is missing, damaged or too large, has several channels, or a weight is negative, above
            MAX_WEIGHT or no number.
    """
    with pixel_rows(file, 1) as rows:
        if rows.shape[0] != 1:
            raise DataError(f"{file}: has {counted(rows.shape[0], 'channel')}, a map of weights has 1: save it in grey")
        weights = supported(rows.read_whole())
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


def supported(pixels: np.ndarray) -> Tensor:
    """Return (C, H, W) integers or floats in the machine's byte order, in a type that samples may have."""
    if pixels.dtype.kind == "b":
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    wanted = {"u1": np.uint8, "u2": np.uint16, "i1": np.int16, "i2": np.int16}.get(pixels.dtype.str[1:], np.float32)
    with np.errstate(over="ignore"):  # what float32 does not hold becomes infinity, which `checked_values` reports
        return torch.from_numpy(np.ascontiguousarray(pixels, dtype=wanted))


def _has_8_bits(image: ImageFile) -> bool:
    return not image.mode.startswith(("I", "F")) and not raw_mode(image).endswith("16B")


def _pillow_rows(opened: BinaryIO, file: File, n_channels: int) -> PixelRows:
    """Return uint8 or uint16 pixels, or float32 of 32-bit files, which Pillow decodes at once."""
    image = open_with_pillow(opened, file)
    layout, mode = raw_mode(image), _mode_to_read(image)
    if layout == "LA;16B":
        raise DataError(f"{file}: is 16-bit grey with transparency; save it without")
    is_wide = layout.endswith(";16B") or is_16_bit_grey(image)
    dtype = np.dtype(np.uint16 if is_wide else np.uint8 if mode in _BANDS else np.float32)
    n_kept = n_channels if _ALPHA.get(mode) == n_channels else _BANDS.get(mode, 1)

    def load() -> np.ndarray:
        with image_errors(file):
            pixels = _pixels(image, mode)
            if is_wide and pixels.dtype == np.uint8:  # Pillow decodes only the first byte of colours of 16 bits
                low = _pixels(open_with_pillow(opened, file), mode, layout.replace(";16B", ";16L"))
                pixels = pixels.astype(np.uint16) << 8 | low
            return pixels[..., :n_kept].transpose(2, 0, 1)

    return loaded_rows(str(file), (n_kept, *header_size(image)), dtype, load)


def _mode_to_read(image: ImageFile) -> str:
    """Return the mode in which Pillow is to return the pixels of an image. Only the header is read."""
    if image.mode in _BANDS or image.mode.startswith(("I", "F")):
        return image.mode
    return "L" if image.mode == "1" else "RGBA" if image.has_transparency_data else "RGB"


def _pixels(file_image: ImageFile, mode: str, layout: str = "") -> np.ndarray:
    """Return (H, W, C) of an opened image.

    layout: Layout that Pillow is to assume, such as the other byte order. It then decodes the second bytes.
    """
    if layout:
        (tile,) = file_image.tile
        file_image.tile = [tile._replace(args=layout)]
    image = upright(file_image)
    if is_16_bit_grey(image):
        return np.asarray(image).astype(np.uint16)[..., None]
    if mode not in _BANDS:
        return np.asarray(image).astype(np.float32)[..., None]
    return np.atleast_3d(np.array(image if image.mode == mode else image.convert(mode)))
