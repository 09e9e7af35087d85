"""Augmentation of training pairs: geometry for all maps of a sample, colours, noise and JPEG for its source alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from data.photometric import Photometric
from data.warp import Warp, affine_inverse, controls_of

OF_RGB_SOURCES = ("color", "hue", "noise", "jpeg_quality")  # settings, without effect on other sources


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
