"""Resize, crop, mirror and augment all maps of a sample in the same way. Find and fill pixels without data."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from data.batch import DataError, Sample
from data.files.stored_image import DECODED_BYTES, is_too_large
from data.files.tiff_tags import file_tags
from data.folder import File
from utils.pictures import resize

if TYPE_CHECKING:  # pair_augmentation imports torchvision, which takes a second
    from data.pair_augmentation import PairAugmentation, PairChange, Warp, Window

Mode = Literal["resize_and_crop", "scale_width", "scale_width_and_crop", "crop", "none"]


@dataclass(frozen=True)
class Placement:
    """How a sample is resized to height x width, cropped, mirrored and augmented. Lengths are in source pixels.

    target_scale: Height of the target divided by the height of the source.
    """

    height: int
    width: int
    top: int
    left: int
    crop_height: int
    crop_width: int
    flip: bool
    change: "PairChange | None" = None
    target_scale: float = 1.0

    @property
    def of_target(self) -> "Placement":
        """The same placement in target pixels. The scaled lengths must be whole numbers."""
        if self.target_scale == 1:
            return self
        lengths = ("height", "width", "top", "left", "crop_height", "crop_width")
        scaled = {name: int(getattr(self, name) * self.target_scale) for name in lengths}
        return Placement(**scaled, flip=self.flip, change=self.change)

    def image(self, image: Tensor) -> Tensor:
        """Apply the placement to a (C, H, W) image of any type."""
        if image.shape[-2:] != (self.height, self.width):
            image = resize_image(image, self.height, self.width)
        return self._cut(image, self._warp.image if self._warp else None)

    def weights(self, weights: Tensor) -> Tensor:
        """Apply the placement to a (1, H, W) weight map. Pixels from outside the image get weight 0."""
        if weights.shape[-2:] != (self.height, self.width):
            resized = resize(weights.float(), self.height, self.width)  # bilinear does not overshoot
            weights = resized if weights.is_floating_point() else resized.round_().to(weights.dtype)
        return self._cut(weights, self._warp.weights if self._warp else None)

    def ids(self, ids: Tensor) -> Tensor:
        """Apply the placement to a (C, H, W) integer map, with nearest-neighbour interpolation."""
        height, width = ids.shape[-2:]
        if (height, width) != (self.height, self.width):
            rows = ((torch.arange(self.height) + 0.5) * (height / self.height)).long()
            columns = ((torch.arange(self.width) + 0.5) * (width / self.width)).long()
            ids = torch.from_numpy(ids.numpy().take(rows, axis=1).take(columns, axis=2))  # twice as fast as torch
        return self._cut(ids, self._warp.ids if self._warp else None)

    @property
    def _warp(self) -> "Warp | None":
        return self.change.warp if self.change else None

    def _cut(self, image: Tensor, warped: "Callable[[Tensor, Window], Tensor] | None") -> Tensor:
        top, left, height, width = window = (self.top, self.left, self.crop_height, self.crop_width)
        image = warped(image, window) if warped else image[:, top : top + height, left : left + width]
        image = image.flip(-1) if self.flip else image
        return (image.rot90(self.change.n_quarter_turns, (-2, -1)) if self.change else image).contiguous()


class LeastSide(NamedTuple):
    """The minimum side of training samples in source pixels, and the settings that require it (`reason`)."""

    pixels: int = 1
    reason: str = ""


@dataclass(frozen=True)
class Preprocessing:
    """Settings of resizing, cropping, mirroring and augmentation. Lengths are in source pixels.

    size_multiple: Divisor of height and width. Sizes that depend on the image are rounded to multiples of this number.
    min_size: Minimum for height and width if they depend on the image.
    least: Minimum for height and width of training samples.
    target_scale: Height of a target divided by the height of its source, a power of 2.
    """

    mode: Mode
    load_height: int
    load_width: int
    crop_height: int
    crop_width: int
    flip: bool
    size_multiple: int
    min_size: int
    augmentation: "PairAugmentation | None" = None
    target_scale: float = 1.0
    least: LeastSide = field(default_factory=LeastSide)

    def draw(self, sample: Sample, rng: np.random.Generator) -> Placement:
        """Draw a random placement for training; raise DataError if the resized sample is too small or too large."""
        placement = self._drawn_crop(sample, rng)
        if min(placement.crop_height, placement.crop_width) < self.least.pixels:
            height, width = sample.source.shape[-2:]
            raise DataError(
                f"{sample.name} is {width}x{height}, and data.preprocess={self.mode} makes it {placement.crop_width}x"
                f"{placement.crop_height}, but {self.least.reason} needs sides of at least {self.least.pixels}. Set "
                f"data.on_bad_sample=skip to leave the sample out, or change data.preprocess or {self.least.reason}"
            )
        if self.augmentation is None:
            return placement
        return replace(placement, change=self.augmentation.draw(placement.crop_height, placement.crop_width, rng))

    def _drawn_crop(self, sample: Sample, rng: np.random.Generator) -> Placement:
        whole = self.whole(sample)
        flip = self.flip and bool(rng.random() < 0.5)
        if self.mode in ("scale_width", "none"):
            return replace(whole, flip=flip)
        if self.crop_height > whole.height or self.crop_width > whole.width:
            raise DataError(
                f"{sample.name} is {whole.width}x{whole.height}, too small for a crop of "
                f"{self.crop_width}x{self.crop_height}: lower data.crop_width and data.crop_height, choose another "
                "data.preprocess, or set data.on_bad_sample=skip to leave it out"
            )
        return replace(
            whole,
            top=int(rng.integers((whole.height - self.crop_height) // self._unit + 1)) * self._unit,
            left=int(rng.integers((whole.width - self.crop_width) // self._unit + 1)) * self._unit,
            crop_height=self.crop_height,
            crop_width=self.crop_width,
            flip=flip,
        )

    def whole(self, sample: Sample) -> Placement:
        """Return the placement of the resized sample before cropping; raise DataError if the size is too large."""
        height, width = sample.source.shape[-2:]
        if self.mode == "resize_and_crop":
            height, width = self.load_height, self.load_width
        elif self.mode == "scale_width":
            height, width = self._rounded(self.load_width * height / width), self.load_width
        elif self.mode == "scale_width_and_crop":
            n_units = self.load_width * height // (width * self._unit)
            height, width = max(1, n_units) * self._unit, self.load_width
        elif self.mode == "none":
            height, width = self._rounded(height), self._rounded(width)
        placement = self._all_of(height, width)
        enlarging = max(1, self.target_scale)
        channel_bytes = len(sample.source) * sample.source.element_size()
        sides = round(placement.height * enlarging), round(placement.width * enlarging)
        if is_too_large(*sides, max(DECODED_BYTES, channel_bytes)):
            height, width = sample.source.shape[-2:]
            of_target = f", with a target {enlarging:g} times as large" if enlarging > 1 else ""
            raise DataError(
                f"{sample.name} is {width}x{height}, which data.preprocess={self.mode} resizes to "
                f"{placement.width}x{placement.height}{of_target}: too large for this machine's memory"
            )
        return placement

    @property
    def size_rule(self) -> str:
        """Text with all settings that `whole` uses."""
        scale = "" if self.target_scale == 1 else f" {self.target_scale:g}"
        return f"{self.mode} {self.load_height} {self.load_width} {self.size_multiple} {self.min_size}{scale}"

    def fixed(self, sample: Sample) -> Placement:
        """Return the placement of the whole image for validation and testing; raise DataError like `whole`."""
        if self.mode == "resize_and_crop":  # pix2pix tests at the crop size
            return self._all_of(self.crop_height, self.crop_width)
        resized = self.whole(sample)
        return self._all_of(self._rounded(resized.height), self._rounded(resized.width))

    def _all_of(self, height: int, width: int) -> Placement:
        return Placement(height, width, 0, 0, height, width, flip=False, target_scale=self.target_scale)

    def _rounded(self, length: float) -> int:
        return max(self.min_size, round(length / self.size_multiple) * self.size_multiple)

    @property
    def _unit(self) -> int:
        """Smallest number of source pixels that equals a whole number of target pixels."""
        return math.ceil(1 / self.target_scale)


def place(sample: Sample, source: Placement, source_is_ids: bool) -> Sample:
    """Apply a placement, given in source pixels, to all maps of a sample."""
    target = source.of_target
    placing = {
        "source": source.ids if source_is_ids else source.image,
        "target": target.image,
        "weights": target.weights,
        "source_images": source.image,
    }
    # features are constant in each instance, so they are placed like ids
    placed: dict[str, Any] = {kind: placing.get(kind, source.ids)(tensor) for kind, tensor in sample.maps.items()}
    return replace(sample, **placed)


def resize_image(image: Tensor, height: int, width: int) -> Tensor:
    """Resize a (C, H, W) image with antialiased bicubic interpolation, like Pillow in the original pix2pix.

    Images that are not 8-bit are clamped to their own range. For example, no depth becomes negative.
    """
    if image.dtype == torch.uint8:
        return resize(image, height, width, "bicubic")
    values = image.float()
    lowest, highest = values.aminmax()
    resized = resize(values, height, width, "bicubic").clamp_(lowest, highest)
    return resized if image.is_floating_point() else resized.round_().to(image.dtype)


# no-data values of ArcGIS and GDAL, and netCDF's default _FillValue for floats
_NO_DATA = (-9999.0, -99999.0, -999.0, 1e20, 9.969209968386869e36, -3.4028234663852886e38)
_LIMITS = (-32768.0, -32767.0, 65535.0)  # limits of 16-bit integers; saturated pixels can also have these values
_LEAST_GAP = 0.05  # minimum distance of a _NO_DATA value from the nearest value, divided by the range of other values
_CT_PADDING = (-3024.0, -2000.0, -32768.0)  # values outside the field of view of CT, in Hounsfield units
_CT_MINIMUM = -1100.0  # lowest value with data: air has -1000, and scanners store at least -1024


def no_data(image: Tensor, file: File | None) -> tuple[float, int] | None:
    """Find the no-data value of a (C, H, W) image. Return the value and the number of its pixels, or None.

    The value is GDAL's tag in a TIFF, or a common no-data value far from all other values. For uint8, return None.
    """
    if image.dtype == torch.uint8:
        return None
    values, tagged = image.numpy(), file_tags(file).no_data
    for value in (tagged, float(values.min()), float(values.max())):
        if value is None or not math.isfinite(value):
            continue
        is_value = values == (np.float32(value) if values.dtype == np.float32 else value)
        if is_value.any() and (value == tagged or _is_apart(value, values[~is_value])):
            return value, int(is_value.any(axis=0).sum())
    return None


def _is_apart(value: float, others: np.ndarray) -> bool:
    if not others.size:
        return False
    low, high = float(others.min()), float(others.max())
    if value in _CT_PADDING and low >= _CT_MINIMUM > value:
        return True
    gap = min(abs(low - value), abs(high - value)) / max(high - low, 1e-30)
    is_usual = any(math.isclose(value, usual, rel_tol=1e-6) for usual in _NO_DATA)
    return gap >= 1 if value in _LIMITS else is_usual and gap >= _LEAST_GAP


def missing_pixels(image: Tensor, value: float | None) -> Tensor | None:
    """Return the mask of pixels without data in a (C, H, W) image, (H, W) bool, or None if all pixels have data.

    A float pixel is missing if any channel is NaN, infinity or `value`, an integer pixel if all channels are `value`.
    """
    is_value = torch.zeros((), dtype=torch.bool)
    if image.is_floating_point():
        is_value = ~image.isfinite()
    if value is not None and math.isfinite(value):
        is_value = is_value | (image == value if image.is_floating_point() else image.to(torch.float64) == value)
    if not bool(is_value.any()):
        return None
    missing = is_value.any(dim=0) if image.is_floating_point() else is_value.all(dim=0)  # one channel may be `value`
    return missing if bool(missing.any()) else None


def filled(image: Tensor, missing: Tensor | None, otherwise: Tensor) -> Tensor:
    """Return a (C, H, W) image. Each missing pixel gets the value of the nearest pixel with data in its row.

    missing: Mask of missing pixels, (H, W) bool, or None if no pixel is missing.
    otherwise: Values for rows without any data, (C, 1, 1).
    """
    if missing is None:
        return image
    is_missing, pixels = missing.numpy(), image.numpy()
    columns, width = np.arange(is_missing.shape[1]), is_missing.shape[1]
    left = np.maximum.accumulate(np.where(is_missing, -width, columns), axis=1)
    right = np.minimum.accumulate(np.where(is_missing, 2 * width, columns)[:, ::-1], axis=1)[:, ::-1]
    nearest = np.where(columns - left <= right - columns, left, right)
    is_empty = is_missing.all(axis=1)
    nearest[is_empty] = 0
    result = np.take_along_axis(pixels, nearest[None], axis=2)
    result[:, is_empty] = otherwise.numpy().astype(pixels.dtype)
    return torch.from_numpy(result)
