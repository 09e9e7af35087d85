"""The range of an image's values. The networks see it as -1 to 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class ValueRange:
    """The values that become -1 and 1, for all channels together or for each channel."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, bounds: Sequence[float]) -> Self:
        """Return the range of [low, high], or of the low and high of each channel in turn."""
        return cls(tuple(bounds[::2]), tuple(bounds[1::2]))

    def to_float(self, images: Tensor, *, clamps: bool = True) -> Tensor:
        """Convert (N, C, H, W) values of any type to float32, clamped to [-1, 1] if `clamps`."""
        low, scale = self._low_and_scale(images.device)
        values = images.float().sub(low).mul_(scale).sub_(1.0)
        return values.clamp_(-1.0, 1.0) if clamps else values

    def from_float(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Convert (N, C, H, W) floats in [-1, 1] to values. Integers are rounded and clamped to their type."""
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
    """Return the lows and the scales, (C, 1, 1), on a device. The cache saves a step the wait for the copy."""
    with torch.inference_mode(False):
        low, high = (torch.tensor(bounds, dtype=torch.float64).view(-1, 1, 1) for bounds in (values.low, values.high))
        return low.float().to(device), (2.0 / (high - low)).float().to(device)
