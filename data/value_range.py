"""The range of an image's values, which the networks see as -1 to 1."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
import torch
from torch import Tensor

from data.batch import DataError, LoadingError, Sample
from data.layout import Layout
from data.no_data import no_data
from utils.log import logger
from utils.text import counted, exact

PERCENTILES = (0.1, 99.9)
_MAX_SAMPLES = 256  # that are read for percentiles, spread over the split
_MAX_PIXELS = 2**16  # of a sample, spread over it


@dataclass(frozen=True)
class ValueRange:
    """The values that become -1 and 1; what is outside becomes one of them.

    low, high: for all channels together, or for each channel.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, bounds: Sequence[float]) -> Self:
        """Return the range of [low, high], or of the low and high of each channel in turn."""
        return cls(tuple(bounds[::2]), tuple(bounds[1::2]))

    def to_float(self, images: Tensor, *, clamps: bool = True) -> Tensor:
        """Convert (N, C, H, W) values of any type to float32 in [-1, 1].

        clamps: otherwise values outside the range are beyond -1 and 1.
        """
        low, scale = self._low_and_scale(images.device)
        values = images.float().sub(low).mul_(scale).sub_(1.0)
        return values.clamp_(-1.0, 1.0) if clamps else values

    def from_float(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Convert (N, C, H, W) floats in [-1, 1] to values; integers are rounded and clamped to their type."""
        low, scale = self._low_and_scale(images.device)
        values = images.float().add(1.0).div_(scale).add_(low)
        if dtype.is_floating_point:
            return values.to(dtype)
        bounds = torch.iinfo(dtype)
        return values.round_().clamp_(bounds.min, bounds.max).to(dtype)

    def outside(self, image: Tensor) -> float:
        """Return the share of a (C, H, W) image's values that are outside the range."""
        return float((self.to_float(image, clamps=False).abs() > 1.0 + 1e-5).float().mean())

    def _low_and_scale(self, device: torch.device) -> tuple[Tensor | float, Tensor | float]:
        if len(self.low) == 1:
            return self.low[0], 2.0 / (self.high[0] - self.low[0])
        return _tensors(self, device)


@lru_cache(maxsize=64)
def _tensors(values: ValueRange, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the lows and the scales, (C, 1, 1), on a device: copied once, so that a step does not wait for it."""
    with torch.inference_mode(False):
        low, high = (torch.tensor(bounds, dtype=torch.float64).view(-1, 1, 1) for bounds in (values.low, values.high))
        return low.float().to(device), (2.0 / (high - low)).float().to(device)


def percentile_ranges(layout: Layout, kinds: Sequence[str], *, skips_bad: bool) -> dict[str, list[float]]:
    """Return the low and high of each channel in turn, PERCENTILES of the values of up to 256 samples, by kind of map.

    Pixels without data are left out and reported.

    kinds: "source", "source_images", "target". Of each sample up to 65,536 pixels are taken. A channel with a single
        value gets a range that starts at it.
    skips_bad: leave out samples that cannot be used.

    Raises:
        DataError: a sample cannot be used, or none can.
    """
    bounds: dict[str, list[float]] = {}
    for side in layout.sides:
        sides = {kind: layout.side_of(kind) for kind in kinds}
        own = {kind: its_kind for kind, (its_side, its_kind) in sides.items() if its_side is side}
        values: dict[str, list[np.ndarray]] = {kind: [] for kind in own}
        left_out = {kind: Counter[float]() for kind in own}
        for index, sample in _spread(side, skips_bad=skips_bad) if own else ():
            for kind, its_kind in own.items():
                image = getattr(sample, its_kind)
                pixels = image.flatten(1).numpy()
                pixels = pixels[:, :: -(-pixels.shape[1] // _MAX_PIXELS)]
                if found := no_data(image, side.provenance(index).files.get(its_kind)):
                    with_data = pixels[:, (pixels != pixels.dtype.type(found[0])).all(axis=0)]
                    pixels = with_data if with_data.size else pixels
                    left_out[kind][found[0]] += 1
                values[kind].append(pixels.astype(np.float32))
        bounds |= {kind: _bounds(np.concatenate(parts, axis=1)) for kind, parts in values.items()}
        for kind, counts in left_out.items():
            for value, number in counts.items():
                text = "no data        %s in %s of the %ss; the range leaves such pixels out"
                logger.info(text, exact(value), counted(number, "image"), kind.removesuffix("_images"))
    return bounds


def _spread(layout: Layout, *, skips_bad: bool) -> Iterator[tuple[int, Sample]]:
    """Yield samples that are spread over a layout, with their indices; raises as `percentile_ranges`."""
    indices = np.linspace(0, len(layout) - 1, min(len(layout), _MAX_SAMPLES)).astype(int)
    n_read = 0
    for index in indices.tolist():
        try:
            sample = layout.read(index)
        except LoadingError:
            raise
        except DataError:
            if not skips_bad or (index == indices[-1] and not n_read):
                raise
        else:
            n_read += 1
            yield index, sample


def _bounds(values: np.ndarray) -> list[float]:
    """Return low and high of each channel in turn, (C, n) values, rounded to a millionth of their distance."""
    lows, highs = np.percentile(values, PERCENTILES, axis=1)
    bounds = []
    for low, high in zip(lows.tolist(), highs.tolist(), strict=True):
        width = high - low or max(1.0, abs(low) / 2**20)  # float32 has no numbers between large ones
        digits = 5 - math.floor(math.log10(width))
        bounds += [round(low, digits), round(low + width, digits)]
    return bounds
