"""Augmentation of training pairs: quarter turns, rotation, scale and elastic deformation of all maps of a sample.

The import of torchvision takes a second. Import this module only if augmentation is turned on.
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
    """A rotation, scale and elastic deformation about the centre of a window, for images of any resolution.

    Outside the image, the warp reads pixels of the mirrored image.

    inverse: Matrix ((a, b), (c, d)) that converts a position (x, y) in the output to a position in the input.
    controls: Displacements (x, y) of control points, divided by the window's shorter side, (2, rows, columns) float32.
    """

    inverse: tuple[tuple[float, float], tuple[float, float]]
    controls: Tensor | None = None

    @classmethod
    def of(cls, rotation_degrees: float, scale: float, controls: Tensor | None = None) -> "Warp":
        """Return a warp that rotates counter-clockwise, and enlarges by the factor `scale`."""
        angle = math.radians(rotation_degrees)
        cosine, sine = math.cos(angle) / scale, math.sin(angle) / scale
        return cls(((cosine, -sine), (sine, cosine)), controls)

    def image(self, image: Tensor, window: Window) -> Tensor:
        """Return the warped window of a (C, H, W) image, with bicubic values clamped to the range of each channel."""
        low, high = (
            torch.from_numpy(end(image.numpy(), axis=(1, 2), keepdims=True)).float() for end in (np.min, np.max)
        )
        values = self._read(image.float(), window, "bicubic").clamp(low, high)
        return values if image.is_floating_point() else values.round().to(image.dtype)

    def ids(self, ids: Tensor, window: Window) -> Tensor:
        """Return the warped window of a (C, H, W) integer map, with nearest-neighbour interpolation."""
        return self._read(ids.double(), window, "nearest").to(ids.dtype)

    def weights(self, weights: Tensor, window: Window) -> Tensor:
        """Return the warped window of a (1, H, W) weight map, with nearest-neighbour interpolation.

        The weight is 0 outside the image. It is also 0 if `Warp.image` uses a pixel of weight 0 at this position.
        """
        near_0 = max_pool2d((weights == 0).double(), kernel_size=5, stride=1, padding=2)  # bicubic reach: 2 pixels
        return self._read(weights.double().masked_fill(near_0 > 0, 0), window, "nearest", "zeros").to(weights.dtype)

    def _read(self, image: Tensor, window: Window, mode: str, beyond: str = "reflection") -> Tensor:
        top, left, height, width = window
        center = torch.tensor([left + width / 2, top + height / 2])
        grid = (_positions(self, height, width) + center) * 2 / torch.tensor([image.shape[2], image.shape[1]]) - 1
        return grid_sample(image[None], grid[None].to(image.dtype), mode, beyond, align_corners=False)[0]


@lru_cache(maxsize=2)  # source and target
def _positions(warp: Warp, height: int, width: int) -> Tensor:
    """Return each output pixel's position (x, y) in the input, relative to the centre, (height, width, 2) float32."""
    x = torch.arange(width) + 0.5 - width / 2
    y = (torch.arange(height) + 0.5 - height / 2)[:, None]
    positions = torch.stack([from_x * x + from_y * y for from_x, from_y in warp.inverse])
    if warp.controls is not None:
        shares = F.resize(warp.controls, [height, width], InterpolationMode.BICUBIC, antialias=True)
        positions += min(height, width) * shares
    return positions.permute(1, 2, 0)


@dataclass(frozen=True)
class PairChange:
    """The random change of one sample.

    n_quarter_turns: Number of counter-clockwise quarter turns, 0 to 3. Odd numbers occur only for squares.
    """

    n_quarter_turns: int = 0
    warp: Warp | None = None


@dataclass(frozen=True)
class PairAugmentation:
    """Settings of the random changes of training pairs. Ranges are [lowest, highest], or empty for no change."""

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
            scale = math.exp(_drawn([math.log(bound) for bound in self.scale], rng))  # 1/2 is as likely as 2
            controls = _draw_controls(_drawn(self.elastic, rng), height, width, rng) if self.elastic else None
            warp = Warp.of(rotation, scale, controls)
        return PairChange(n_turns if height == width else 2 * (n_turns % 2), warp)


def _drawn(bounds: Sequence[float], rng: np.random.Generator) -> float:
    """Draw a number uniformly from a range. Return 0 if the range is empty."""
    return float(rng.uniform(bounds[0], bounds[1])) if bounds else 0.0


def _draw_controls(largest: float, height: int, width: int, rng: np.random.Generator) -> Tensor:
    """Draw `Warp.controls` of at most `largest`, smoothed like cubic B-splines, so that the image does not fold."""
    rows, columns = (round(CONTROLS_PER_SIDE * side / min(height, width)) for side in (height, width))
    controls = rng.uniform(-largest, largest, (2, rows + 2, columns + 2))
    controls = (controls[:, :-2] + 4 * controls[:, 1:-1] + controls[:, 2:]) / 6
    return torch.from_numpy((controls[..., :-2] + 4 * controls[..., 1:-1] + controls[..., 2:]) / 6).float()
