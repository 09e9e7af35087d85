"""Reading images with the channels and the type of the file: 8 or 16 bits, integers or floats."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from data.batch import DataError
from data.files.image_files import open_image, seen_in
from data.files.size_guard import pixel_array
from data.folder import File
from utils.limits import MAX_CHANNELS
from utils.text import counted, exact

MAX_WEIGHT = 1e15  # larger numbers stand for missing values, and would dominate the sum of a batch


@dataclass(frozen=True)
class StoredForm:
    """The expected pixels of images that are not read as 8-bit RGB.

    n_channels: Number of channels. setting: Name of its setting, for messages.
    is_8_bit: Whether files of another type are refused, because no range is known for their values.
    highest: Highest value of each channel that a trained network knows; None for the files of the training.
    allows_missing: Whether NaN and infinity, which stand for pixels without data, are read. The reader fills them.
    """

    n_channels: int
    setting: str
    is_8_bit: bool
    highest: tuple[float, ...] | None = field(default=None, repr=False)  # caches know a sample by the other fields
    allows_missing: bool = field(default=False, repr=False)


def is_8_bit_rgb(file: File) -> bool:
    """Return whether an image is grey or RGB of 8 bits, from its header; True for a file that cannot be read."""
    return seen_in(file, lambda image: image.is_8_bit_rgb, otherwise=True)


def read_pixels(file: File, n_channels: int = 0, check: Callable[[int], None] = lambda n_channels: None) -> Tensor:
    """Read an image as (C, H, W) uint8, uint16, int16 or float32.

    Other integers and floats become float32. A TIFF may hold its channels in each pixel, or one to a page; an array has
    the shape (H, W), (C, H, W) or (H, W, C).

    n_channels: Expected channels. Transparency is dropped if one channel less is expected; 0 keeps it.
    check: Takes the number of channels, and may raise DataError before pixels are decoded.

    Raises:
        DataError: The file is missing, damaged or too large, or has too many channels.
    """
    with open_image(file, n_channels) as image:
        alpha = image.alpha if image.n_channels == n_channels + 1 else None
        n_found = image.n_channels - (alpha is not None)
        if n_found > MAX_CHANNELS:
            raise DataError(f"{file}: has {counted(n_found, 'channel')}, up to {MAX_CHANNELS} are read")
        check(n_found)
        pixels = image.pixels()
        if alpha is not None:
            pixels = pixels[:alpha] if alpha == n_found else np.delete(pixels, alpha, axis=0)  # the slice needs no copy
        return _supported(pixels, str(file))


def read_stored(file: File, form: StoredForm) -> Tensor:
    """Read an image as `read_pixels` does; raise DataError also for other channels, another type, NaN or infinity."""

    def check(n_channels: int) -> None:
        if n_channels == form.n_channels:
            return
        found = counted(n_channels, "channel")
        if form.highest is not None:
            raise DataError(f"{file}: has {found}, the training images {form.n_channels}: give images like those")
        raise DataError(f"{file}: has {found}, {form.setting} is {form.n_channels}: set {form.setting}={n_channels}")

    image = read_pixels(file, form.n_channels, check)
    check_depth(image, file, form)
    return _checked_values(image, file, form)


def read_part(file: File, form: StoredForm) -> Tensor:
    """Read one of the images of a stack as `read_stored` does, with any number of channels that the stack may have.

    form: Expected pixels of the whole stack.
    """

    def check(n_channels: int) -> None:
        if n_channels > form.n_channels + 1:  # `fitting` may drop transparency
            found = f"has {n_channels} channels, {form.setting} is {form.n_channels} for all source folders together"
            raise DataError(f"{file}: {found}. Set {form.setting} to the number of all channels.")

    return _checked_values(read_pixels(file, check=check), file, form)


def read_weights(file: File) -> Tensor:
    """Read a map of weights, (1, H, W), as `read_pixels` does.

    Raises:
        DataError: See `read_pixels`. Or a weight is negative, above MAX_WEIGHT or no number.
    """

    def check(n_channels: int) -> None:
        if n_channels != 1:
            raise DataError(f"{file}: has {counted(n_channels, 'channel')}, a map of weights has 1: save it in grey")

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
    """Raise DataError if an image of 8 bits is given to a network that was trained on more.

    first_channel: Channel of a stack that is the first channel of the image.
    """
    highest = form.highest and max(form.highest[first_channel : first_channel + len(image)])
    if highest and highest > 255 and image.dtype == torch.uint8:
        kind = form.setting.removesuffix("_channels")
        raise DataError(
            f"{file}: holds 8 bits, the training images values up to {exact(highest)}: store it as those, or set "
            f"{kind}_range=[0,255]"
        )


def _checked_values(image: Tensor, file: File, form: StoredForm) -> Tensor:
    """Return an image; raise DataError if it has another type than expected, or holds NaN or infinity."""
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
            f"{file}: channel {channel + 1}, row {row}, column {column} holds {value}, "
            f"which is no number ({counted(n_pixels, 'such pixel')}): replace such values, or leave the file out"
        )
    return image


def _supported(pixels: np.ndarray, name: str) -> Tensor:
    """Return (C, H, W) integers or floats of any byte order in a type that samples may have."""
    wanted = {"u1": np.uint8, "u2": np.uint16, "i1": np.int16, "i2": np.int16}.get(pixels.dtype.str[1:], np.float32)
    wanted = np.uint8 if pixels.dtype.kind == "b" else wanted
    if pixels.dtype == wanted and pixels.flags.c_contiguous and pixels.flags.writeable:
        return torch.from_numpy(pixels)
    channels, height, width = pixels.shape
    result = pixel_array(name, (channels, height, width), wanted)
    with np.errstate(over="ignore"):  # what float32 does not hold becomes infinity, which `_checked_values` reports
        result[:] = pixels
    if pixels.dtype.kind == "b":
        result *= 255
    return torch.from_numpy(result)
