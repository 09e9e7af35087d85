"""The range of values in which images that are not 8-bit RGB are compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Bounds:
    """The values that metrics take as 0 and 1: (C or 1, 1, 1) float32 each.

    are_closed: whether values outside become one of them.
    """

    low: Tensor
    high: Tensor
    are_closed: bool = True

    @classmethod
    def of(cls, bounds: Sequence[float], *, are_closed: bool = True) -> Self:
        """Return the bounds of [low, high], or of the low and high of each channel in turn."""
        low, high = (torch.tensor(part, dtype=torch.float32).view(-1, 1, 1) for part in (bounds[::2], bounds[1::2]))
        return cls(low, high, are_closed)

    def shares(self, image: Tensor) -> Tensor:
        """Return a (C, H, W) image of any type as float32; in [0, 1], unless bounds are open."""
        shares = (image.float() - self.low) / (self.high - self.low)
        return shares.clamp_(0, 1) if self.are_closed else shares

    def levels(self, image: Tensor) -> Tensor:
        """Return a (C, H, W) image as uint8, 0 to 255 over the range; a single channel becomes three."""
        levels = self.shares(image).clamp(0, 1).mul_(255).round_().to(torch.uint8)
        return levels.expand(3, -1, -1) if len(levels) == 1 else levels
