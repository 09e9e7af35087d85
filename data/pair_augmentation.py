"""Augmentation of training pairs: geometry for all maps of a sample, colours, noise and JPEG for its source alone.

Of rotation, scale, shear and elastic deformation comes one reading position per pixel, the same for all maps.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import grid_sample, max_pool2d

from utils.limits import CONTROLS_PER_SIDE

OF_RGB_SOURCES = ("color", "hue", "noise", "jpeg_quality")  # settings, without effect on other sources


@dataclass(frozen=True)
class Photometric:
    """One draw; 1 and 0 are neutral.

    brightness, contrast, saturation: factors. Saturation is that of RGB images.
    hue: shift of 8-bit RGB colours, in turns of the colour circle.
    noise: standard deviation of Gaussian noise, independent in each channel, as a share of the image's range.
    noise_seed: of the noise.
    jpeg_quality: of 8-bit RGB images, 1 to 100; None: not compressed.
    """

    brightness: float = 1.0
    contrast: float = 1.0
    saturation: float = 1.0
    hue: float = 0.0
    noise: float = 0.0
    noise_seed: int = 0
    jpeg_quality: int | None = None

    def __call__(self, image: Tensor) -> Tensor:
        """Return a changed (C, H, W) image of the same dtype; the given one stays.

        Its range is 0 to 255 where it is uint8, otherwise from its lowest to its highest level. Values stay within it.
        """
        is_byte, is_rgb = image.dtype == torch.uint8, len(image) == 3
        changes_hue = self.hue != 0 and is_byte and is_rgb
        if (self.brightness, self.contrast, self.saturation, self.noise) != (1, 1, 1, 0) or changes_hue:
            low, high = (0.0, 255.0) if is_byte else (float(level) for level in image.float().aminmax())
            share = self._changed((image.float() - low) / max(high - low, 1e-30), is_rgb, changes_hue)
            levels = share * (high - low) + low
            image = levels if image.is_floating_point() else levels.round_().to(image.dtype)
        if self.jpeg_quality is not None and is_byte and is_rgb:
            image = _through_jpeg(image, self.jpeg_quality)
        return image

    def _changed(self, image: Tensor, is_rgb: bool, changes_hue: bool) -> Tensor:
        """Return (C, H, W) float32 in [0, 1], changed."""
        image = (image * self.brightness).clamp_(0, 1)
        if self.contrast != 1:
            mean = float(image.numpy().mean(dtype=np.float64))  # torch's may depend on the number of threads
            image = torch.lerp(image.new_tensor(mean), image, self.contrast).clamp_(0, 1)
        if self.saturation != 1 and is_rgb:
            image = _torchvision().adjust_saturation(image, self.saturation)
        if changes_hue:
            image = _torchvision().adjust_hue(image, self.hue)
        if self.noise:
            noise = np.random.default_rng(self.noise_seed).standard_normal(image.shape, dtype=np.float32)
            image = (image + torch.from_numpy(noise) * self.noise).clamp_(0, 1)
        return image


@dataclass(frozen=True, eq=False)
class Warp:
    """One draw, without unit: the same for each resolution of a sample.

    inverse: ((a, b), (c, d)), the affine part, from positions (x, y) in the output to those in the image, both relative
        to the centre of the output's window.
    controls: (2, rows, columns) float32 displacements in x and y of the control points, in shares of the shorter side,
        as `controls_of` counts them; None without elastic deformation.
    """

    inverse: tuple[tuple[float, float], tuple[float, float]]
    controls: Tensor | None = None

    def positions(self, height: int, width: int) -> Tensor:
        """Return where each pixel of the output reads: (2, height, width) float32 of x and y, in pixels."""
        x = torch.arange(width) + (0.5 - width / 2)
        y = (torch.arange(height) + (0.5 - height / 2))[:, None]
        positions = torch.stack([from_x * x + from_y * y for from_x, from_y in self.inverse])
        if self.controls is not None:
            positions += min(height, width) * _between(self.controls, height, width)
        return positions


def affine_inverse(
    rotation_degrees: float, scale: float, shear_degrees: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return `Warp.inverse` of a horizontal shear, then a magnification, then a counter-clockwise rotation."""
    cosine, sine = math.cos(math.radians(rotation_degrees)) / scale, math.sin(math.radians(rotation_degrees)) / scale
    shear = math.tan(math.radians(shear_degrees))
    return (cosine - shear * sine, -sine - shear * cosine), (sine, cosine)


def controls_of(height: int, width: int) -> tuple[int, int]:
    """Return the rows and columns of control points of an output, with those outside that its borders depend on."""
    shorter = min(height, width)
    return math.ceil(CONTROLS_PER_SIDE * height / shorter) + 3, math.ceil(CONTROLS_PER_SIDE * width / shorter) + 3


def image_at(image: Tensor, positions: Tensor) -> Tensor:
    """Return a (C, H, W) image read at (2, h, w) positions from its upper left corner, in its own dtype.

    Bicubic, since bilinear reading blurs, and within the range of each channel. Beyond the borders the image continues
    as its reflection.
    """
    values = image.numpy()
    bounds = (end(axis=(1, 2), keepdims=True).astype(np.float32) for end in (values.min, values.max))
    read = _read(image, positions, "bicubic").clamp_(*map(torch.from_numpy, bounds))  # it overshoots at edges
    return read if image.is_floating_point() else read.round_().to(image.dtype)


def ids_at(ids: Tensor, positions: Tensor) -> Tensor:
    """Return a (C, H, W) map read at (2, h, w) positions: the nearest pixel's value, exact for every dtype."""
    x, y = _reflected(positions, ids)
    return ids[:, y.long().clamp_(max=ids.shape[-2] - 1), x.long().clamp_(max=ids.shape[-1] - 1)]


def weights_at(weights: Tensor, positions: Tensor) -> Tensor:
    """Return a (1, H, W) map of weights read bilinearly, and 0 beyond the borders and where a weight of 0 is near.

    Near is what `image_at` reads, so that pixels of weight 0 have no part in others.
    """
    height, width = weights.shape[-2:]
    x, y = positions
    is_inside = (x >= 0) & (x <= width) & (y >= 0) & (y <= height)
    near_0 = max_pool2d((weights == 0).float(), kernel_size=3, stride=1, padding=1)  # bicubic reads one pixel farther
    read = _read(weights, positions, "bilinear") * (is_inside & (_read(near_0, positions, "bilinear") == 0))
    return read if weights.is_floating_point() else read.round_().to(weights.dtype)


def _read(image: Tensor, positions: Tensor, mode: Literal["bilinear", "bicubic"]) -> Tensor:
    """Return a (C, H, W) image at (2, h, w) positions, float32; only the part that is read is copied."""
    x, y = _reflected(positions, image)
    x, columns = _within(x, image.shape[2])
    y, rows = _within(y, image.shape[1])
    part = torch.from_numpy(image.numpy().take(rows, axis=1).take(columns, axis=2)).float()  # much faster than torch's
    grid = torch.stack([x, y], dim=-1)
    return grid_sample(part[None], grid[None], mode=mode, padding_mode="border", align_corners=False)[0]


def _within(positions: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """Return positions along a side as grid_sample counts them in the pixels that it reads, and the numbers of these.

    Beyond a border, which a bicubic reading crosses by up to two pixels, they are those of the reflection.
    """
    first, last = (math.floor(float(end) - 0.5) for end in positions.aminmax())
    pixels = torch.arange(first - 1, last + 3)
    return (positions - pixels[0]) * (2 / len(pixels)) - 1, _mirrored(pixels + 0.5, side).long()


def _reflected(positions: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
    """Return x and y within 0 .. width and 0 .. height: pixel k lies between k and k + 1."""
    height, width = image.shape[-2:]
    return _mirrored(positions[0], width), _mirrored(positions[1], height)


def _mirrored(positions: Tensor, side: int) -> Tensor:
    folded = positions.remainder(2 * side)
    return torch.minimum(folded, 2 * side - folded)


def _between(controls: Tensor, height: int, width: int) -> Tensor:
    """Return (2, height, width) float32: the cubic B-splines of control points (Rueckert et al. 1999, eq. 1).

    A sum term by term: what a matrix product rounds to may depend on the number of threads.
    """
    distance = min(height, width) / CONTROLS_PER_SIDE
    _, n_rows, n_columns = controls.shape
    of_rows, of_columns = _spline_weights(height, distance, n_rows), _spline_weights(width, distance, n_columns)
    across = controls.new_zeros(2, n_rows, width)
    for control, weights in zip(controls.unbind(2), of_columns, strict=True):
        across.addcmul_(control[:, :, None], weights)
    between = controls.new_zeros(2, height, width)
    for control, weights in zip(across.unbind(1), of_rows, strict=True):
        between.addcmul_(control[:, None], weights[:, None])
    return between


def _spline_weights(side: int, distance: float, n_controls: int) -> Tensor:
    """Return (n_controls, side) float32: the weight of each control point for each pixel along a side."""
    pixels = (torch.arange(side) + 0.5) / distance + 1  # the first control point lies one distance outside
    offset = (pixels - torch.arange(n_controls)[:, None]).abs()
    near = 2 / 3 - offset**2 + offset**3 / 2
    return torch.where(offset < 1, near, (2 - offset).clamp(min=0) ** 3 / 6)


@dataclass(frozen=True)
class PairChange:
    """One draw. The warp is applied while a sample is cut out; flip and turns to what has been cut out.

    n_quarter_turns: counter-clockwise, 0 to 3; odd ones for squares only.
    photometric: for the source where it is an image.
    """

    vertical_flip: bool = False
    n_quarter_turns: int = 0
    warp: Warp | None = None
    photometric: Photometric | None = None

    def turned(self, image: Tensor) -> Tensor:
        """Return a flipped and turned (C, H, W) map."""
        image = image.flip(-2) if self.vertical_flip else image
        return image.rot90(self.n_quarter_turns, (-2, -1)) if self.n_quarter_turns else image


NO_CHANGE = PairChange()  # the draw of NO_AUGMENTATION


@dataclass(frozen=True)
class PairAugmentation:
    """The settings of `data.augment`; ranges are [lowest, highest], empty where nothing is drawn."""

    rotation_degrees: Sequence[float] = ()
    scale: Sequence[float] = ()
    shear_degrees: Sequence[float] = ()
    elastic: Sequence[float] = ()
    vertical_flip: bool = False
    quarter_turns: bool = False
    color: Sequence[float] = ()
    hue: Sequence[float] = ()
    noise: Sequence[float] = ()
    jpeg_quality: Sequence[int] = ()

    def __post_init__(self) -> None:
        if self.color or self.hue:
            _torchvision()  # before loader processes start, which would each import it

    def draw(self, height: int, width: int, rng: np.random.Generator) -> PairChange:
        """Draw a change for a sample of height x width pixels."""
        n_turns = int(rng.integers(4)) if self.quarter_turns else 0
        return PairChange(
            vertical_flip=self.vertical_flip and bool(rng.random() < 0.5),
            n_quarter_turns=n_turns if height == width else 2 * (n_turns % 2),
            warp=self._draw_warp(height, width, rng),
            photometric=self._draw_photometric(rng),
        )

    def _draw_warp(self, height: int, width: int, rng: np.random.Generator) -> Warp | None:
        if not (self.rotation_degrees or self.scale or self.shear_degrees or self.elastic):
            return None
        rotation = _drawn(self.rotation_degrees, rng, 0)
        scale = math.exp(_drawn([math.log(bound) for bound in self.scale], rng, 0))  # 1/2 as often as 2
        inverse = affine_inverse(rotation, scale, _drawn(self.shear_degrees, rng, 0))
        if not self.elastic:
            return Warp(inverse)
        largest = _drawn(self.elastic, rng, 0)
        controls = rng.uniform(-largest, largest, (2, *controls_of(height, width)))
        return Warp(inverse, torch.from_numpy(controls).float())

    def _draw_photometric(self, rng: np.random.Generator) -> Photometric | None:
        if not (self.color or self.hue or self.noise or self.jpeg_quality):
            return None
        return Photometric(
            brightness=_drawn(self.color, rng, 1),
            contrast=_drawn(self.color, rng, 1),
            saturation=_drawn(self.color, rng, 1),
            hue=_drawn(self.hue, rng, 0),
            noise=_drawn(self.noise, rng, 0),
            noise_seed=int(rng.integers(2**32)) if self.noise else 0,
            jpeg_quality=round(_drawn(self.jpeg_quality, rng, 100)) if self.jpeg_quality else None,
        )


NO_AUGMENTATION = PairAugmentation()


def _drawn(bounds: Sequence[float], rng: np.random.Generator, neutral: float) -> float:
    """Return a number drawn evenly from a range, `neutral` where it is empty."""
    if not bounds:
        return neutral
    lowest, highest = bounds
    return float(rng.uniform(lowest, highest))


def _torchvision() -> ModuleType:
    """Return torchvision's functions of images; importing them takes a second."""
    from torchvision.transforms.v2 import functional

    return functional


def _through_jpeg(image: Tensor, quality: int) -> Tensor:
    """Return a (3, H, W) uint8 RGB image as JPEG keeps it; torchvision's own coder is deprecated."""
    file = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).save(file, "JPEG", quality=quality)
    with Image.open(file, formats=["JPEG"]) as compressed:
        return torch.from_numpy(np.array(compressed)).permute(2, 0, 1)
