"""Augmentation of training pairs: quarter turns, rotation, scale and elastic deformation of all maps of a sample.

Importing torchvision takes a second. `configs/build.py` therefore imports this module only if something is augmented.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torchvision.transforms.v2.functional as F
from torch import Tensor
from torch.nn.functional import grid_sample, max_pool2d
from torchvision.transforms.v2 import InterpolationMode

from utils.limits import CONTROLS_PER_SIDE

Window = tuple[int, int, int, int]  # top, left, height and width in pixels


@dataclass(frozen=True, eq=False)
class Warp:
    """One draw of rotation, scale and elastic deformation about the centre of a window, at any resolution.

    Beyond its borders an image continues as its reflection.

    inverse: ((a, b), (c, d)), from a place (x, y) in the output to the place in the image that it shows.
    controls: Displacements of control points in x and y, (2, rows, columns) float32, as shares of the shorter side.
    """

    inverse: tuple[tuple[float, float], tuple[float, float]]
    controls: Tensor | None = None

    @classmethod
    def of(cls, rotation_degrees: float, scale: float, controls: Tensor | None = None) -> "Warp":
        """Return a magnification and a counter-clockwise rotation."""
        angle = math.radians(rotation_degrees)
        cosine, sine = math.cos(angle) / scale, math.sin(angle) / scale
        return cls(((cosine, -sine), (sine, cosine)), controls)

    def image(self, image: Tensor, window: Window) -> Tensor:
        """Return a window of a (C, H, W) image, interpolated bicubically within the range of each channel."""
        low, high = (
            torch.from_numpy(end(image.numpy(), axis=(1, 2), keepdims=True)).float() for end in (np.min, np.max)
        )
        values = self._read(image.float(), window, "bicubic").clamp(low, high)
        return values if image.is_floating_point() else values.round().to(image.dtype)

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


@dataclass(frozen=True)
class PairChange:
    """One draw for a sample.

    n_quarter_turns: Counter-clockwise, 0 to 3; odd ones only for squares.
    """

    n_quarter_turns: int = 0
    warp: Warp | None = None


@dataclass(frozen=True)
class PairAugmentation:
    """The changes that are drawn for a training pair. Ranges are [lowest, highest]; an empty one draws nothing."""

    rotation_degrees: Sequence[float] = ()
    scale: Sequence[float] = ()
    elastic: Sequence[float] = ()
    quarter_turns: bool = False

    def draw(self, height: int, width: int, rng: np.random.Generator) -> PairChange:
        """Draw a change for a sample of height x width pixels."""
        n_turns = int(rng.integers(4)) if self.quarter_turns else 0
        warp = None
        if self.rotation_degrees or self.scale or self.elastic:
            rotation = _drawn(self.rotation_degrees, rng)
            scale = math.exp(_drawn([math.log(bound) for bound in self.scale], rng))  # 1/2 as often as 2
            controls = _draw_controls(_drawn(self.elastic, rng), height, width, rng) if self.elastic else None
            warp = Warp.of(rotation, scale, controls)
        return PairChange(n_turns if height == width else 2 * (n_turns % 2), warp)


def _drawn(bounds: Sequence[float], rng: np.random.Generator) -> float:
    """Return a number drawn evenly from a range, or 0 if it is empty."""
    return float(rng.uniform(bounds[0], bounds[1])) if bounds else 0.0


def _draw_controls(largest: float, height: int, width: int, rng: np.random.Generator) -> Tensor:
    """Draw `Warp.controls` up to `largest` for a window, smoothed like cubic B-splines so that nothing folds."""
    rows, columns = (round(CONTROLS_PER_SIDE * side / min(height, width)) for side in (height, width))
    controls = rng.uniform(-largest, largest, (2, rows + 2, columns + 2))
    controls = (controls[:, :-2] + 4 * controls[:, 1:-1] + controls[:, 2:]) / 6
    return torch.from_numpy((controls[..., :-2] + 4 * controls[..., 1:-1] + controls[..., 2:]) / 6).float()
