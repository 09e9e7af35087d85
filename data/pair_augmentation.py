"""Augmentation of training pairs: geometry for all maps of a sample, colours, noise and JPEG for its source only.

Importing torchvision takes a second. `configs/build.py` therefore imports this module only if something is augmented.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torchvision.transforms.v2.functional as F
from PIL import Image
from torch import Tensor
from torch.nn.functional import grid_sample, max_pool2d
from torchvision.transforms.v2 import InterpolationMode

from utils.limits import CONTROLS_PER_SIDE

Window = tuple[int, int, int, int]  # top, left, height and width in pixels


@dataclass(frozen=True)
class Photometric:
    """One draw of changes of a source image; the defaults change nothing.

    brightness, contrast, saturation: Factors; saturation is for RGB images.
    hue: Shift of 8-bit RGB colours, in turns of the colour circle.
    noise: Standard deviation of Gaussian noise, as a share of the image's range. noise_seed: Its seed.
    jpeg_quality: Quality for 8-bit RGB images, 1 to 100; None: not compressed.
    """

    brightness: float = 1.0
    contrast: float = 1.0
    saturation: float = 1.0
    hue: float = 0.0
    noise: float = 0.0
    noise_seed: int = 0
    jpeg_quality: int | None = None

    def __call__(self, image: Tensor) -> Tensor:
        """Return a changed copy of a (C, H, W) image, with its dtype and within its range.

        The range is 0 to 255 for uint8, otherwise from the lowest to the highest value of the image.
        """
        is_photo = len(image) == 3 and image.dtype == torch.uint8
        if (self.brightness, self.contrast, self.saturation, self.hue, self.noise) != (1, 1, 1, 0, 0):
            low, high = (0.0, 255.0) if image.dtype == torch.uint8 else map(float, image.float().aminmax())
            shares = self._changed((image.float() - low) / max(high - low, 1e-30), is_photo)
            image = _in_dtype(shares * (high - low) + low, image.dtype)
        return _through_jpeg(image, self.jpeg_quality) if is_photo and self.jpeg_quality is not None else image

    def _changed(self, image: Tensor, is_photo: bool) -> Tensor:
        """Return a changed (C, H, W) float32 image in [0, 1]."""
        image = (image * self.brightness).clamp(0, 1)
        mean = image.double().mean().float()  # a float32 mean may depend on the number of threads
        image = torch.lerp(mean, image, self.contrast).clamp(0, 1)
        if len(image) == 3:
            image = F.adjust_saturation(image, self.saturation)
        if is_photo and self.hue:
            image = F.adjust_hue(image, self.hue)
        if self.noise:
            generator = torch.Generator().manual_seed(self.noise_seed)
            image = (image + self.noise * torch.randn(image.shape, generator=generator)).clamp(0, 1)
        return image


@dataclass(frozen=True, eq=False)
class Warp:
    """One draw of rotation, scale, shear and elastic deformation about the centre of a window, at any resolution.

    Beyond its borders an image continues as its reflection.

    inverse: ((a, b), (c, d)), from a place (x, y) in the output to the place in the image that it shows.
    controls: (2, rows, columns) float32 displacements of control points in x and y, as shares of the shorter side.
    """

    inverse: tuple[tuple[float, float], tuple[float, float]]
    controls: Tensor | None = None

    @classmethod
    def of(cls, rotation_degrees: float, scale: float, shear_degrees: float, controls: Tensor | None = None) -> "Warp":
        """Return a horizontal shear, followed by a magnification and a counter-clockwise rotation."""
        cosine, sine = (
            math.cos(math.radians(rotation_degrees)) / scale,
            math.sin(math.radians(rotation_degrees)) / scale,
        )
        shear = math.tan(math.radians(shear_degrees))
        return cls(((cosine - shear * sine, -sine - shear * cosine), (sine, cosine)), controls)

    def image(self, image: Tensor, window: Window) -> Tensor:
        """Return a window of a (C, H, W) image, interpolated bicubically within the range of each channel."""
        low, high = (
            torch.from_numpy(end(image.numpy(), axis=(1, 2), keepdims=True)).float() for end in (np.min, np.max)
        )
        return _in_dtype(self._read(image.float(), window, "bicubic").clamp(low, high), image.dtype)

    def ids(self, ids: Tensor, window: Window) -> Tensor:
        """Return a window of a (C, H, W) integer map. Each pixel has the exact value of the nearest one."""
        return self._read(ids.double(), window, "nearest").to(ids.dtype)

    def weights(self, weights: Tensor, window: Window) -> Tensor:
        """Return a window of a (1, H, W) map of weights, from the nearest pixels.

        The weight is 0 beyond the borders, and where `image` reads a pixel of weight 0.
        """
        near_0 = max_pool2d((weights == 0).double(), kernel_size=5, stride=1, padding=2)  # bicubic reads 2 pixels away
        return self._read(weights.double().masked_fill(near_0 > 0, 0), window, "nearest", "zeros").to(weights.dtype)

    def _read(self, image: Tensor, window: Window, mode: str, beyond: str = "reflection") -> Tensor:
        top, left, height, width = window
        center = torch.tensor([left + width / 2, top + height / 2])
        grid = (_positions(self, height, width) + center) * 2 / torch.tensor([image.shape[2], image.shape[1]]) - 1
        return grid_sample(image[None], grid[None].to(image.dtype), mode, beyond, align_corners=False)[0]


@lru_cache(maxsize=2)  # source and target
def _positions(warp: Warp, height: int, width: int) -> Tensor:
    """Return the x and y that each pixel of a window shows, from its centre, (height, width, 2) float32 in pixels."""
    x = torch.arange(width) + 0.5 - width / 2
    y = (torch.arange(height) + 0.5 - height / 2)[:, None]
    positions = torch.stack([from_x * x + from_y * y for from_x, from_y in warp.inverse])
    if warp.controls is not None:
        shares = F.resize(warp.controls, [height, width], InterpolationMode.BICUBIC, antialias=True)
        positions += min(height, width) * shares
    return positions.permute(1, 2, 0)


def _in_dtype(values: Tensor, dtype: torch.dtype) -> Tensor:
    return values if dtype.is_floating_point else values.round().to(dtype)


def _through_jpeg(image: Tensor, quality: int) -> Tensor:
    """Return a (3, H, W) uint8 RGB image as JPEG keeps it."""
    file = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).save(file, "JPEG", quality=quality)
    with Image.open(file, formats=["JPEG"]) as compressed:
        return torch.from_numpy(np.array(compressed)).permute(2, 0, 1)


@dataclass(frozen=True)
class PairChange:
    """One draw for a sample.

    n_quarter_turns: Counter-clockwise, 0 to 3; odd ones only for squares.
    photometric: For sources that are images.
    """

    vertical_flip: bool = False
    n_quarter_turns: int = 0
    warp: Warp | None = None
    photometric: Photometric | None = None

    def turned(self, image: Tensor) -> Tensor:
        """Return a flipped and turned (C, H, W) map."""
        return (F.vertical_flip(image) if self.vertical_flip else image).rot90(self.n_quarter_turns, (-2, -1))


@dataclass(frozen=True)
class PairAugmentation:
    """The settings of `data.augment`. Ranges are [lowest, highest]; an empty one draws nothing."""

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

    def draw(self, height: int, width: int, rng: np.random.Generator) -> PairChange:
        """Draw a change for a sample of height x width pixels."""
        n_turns = int(rng.integers(4)) if self.quarter_turns else 0
        flips = self.vertical_flip and bool(rng.random() < 0.5)
        warp = photometric = None
        if self.rotation_degrees or self.scale or self.shear_degrees or self.elastic:
            rotation, shear = _drawn(self.rotation_degrees, rng, 0), _drawn(self.shear_degrees, rng, 0)
            scale = math.exp(_drawn([math.log(bound) for bound in self.scale], rng, 0))  # 1/2 as often as 2
            controls = _draw_controls(_drawn(self.elastic, rng, 0), height, width, rng) if self.elastic else None
            warp = Warp.of(rotation, scale, shear, controls)
        if self.color or self.hue or self.noise or self.jpeg_quality:
            photometric = Photometric(
                brightness=_drawn(self.color, rng, 1),
                contrast=_drawn(self.color, rng, 1),
                saturation=_drawn(self.color, rng, 1),
                hue=_drawn(self.hue, rng, 0),
                noise=_drawn(self.noise, rng, 0),
                noise_seed=int(rng.integers(2**32)),
                jpeg_quality=round(_drawn(self.jpeg_quality, rng, 100)) if self.jpeg_quality else None,
            )
        return PairChange(flips, n_turns if height == width else 2 * (n_turns % 2), warp, photometric)


def _drawn(bounds: Sequence[float], rng: np.random.Generator, neutral: float) -> float:
    """Return a number drawn evenly from a range, `neutral` if it is empty."""
    return float(rng.uniform(bounds[0], bounds[1])) if bounds else neutral


def _draw_controls(largest: float, height: int, width: int, rng: np.random.Generator) -> Tensor:
    """Draw `Warp.controls` up to `largest` for a window, smoothed as by cubic B-splines so that nothing folds."""
    rows, columns = (round(CONTROLS_PER_SIDE * side / min(height, width)) for side in (height, width))
    controls = rng.uniform(-largest, largest, (2, rows + 2, columns + 2))
    controls = (controls[:, :-2] + 4 * controls[:, 1:-1] + controls[:, 2:]) / 6
    return torch.from_numpy((controls[..., :-2] + 4 * controls[..., 1:-1] + controls[..., 2:]) / 6).float()
