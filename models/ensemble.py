"""Several generators as one network."""

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor, nn


class Ensemble(nn.Module):
    """A network that returns the mean of the outputs of several generators.

    generators: Networks with outputs of the same shape. Their only argument is the condition.
    has_spread: Whether to append the standard deviation of the n outputs (with divisor n) as additional channels.
    """

    def __init__(self, generators: Sequence[nn.Module], *, has_spread: bool = False) -> None:
        super().__init__()
        self.generators = nn.ModuleList(generators)
        self.has_spread = has_spread

    def forward(self, condition: Tensor) -> Tensor:
        """Map (N, channels, H, W) to the mean, (N, C, H, W) float32. With `has_spread`, return (N, 2 C, H, W)."""
        outputs = [generator(condition).float() for generator in self.generators]
        mean: Tensor = reduce(torch.add, outputs) / len(outputs)
        if not self.has_spread:
            return mean
        variance = reduce(torch.add, [(output - mean).square() for output in outputs]) / len(outputs)
        return torch.cat([mean, variance.sqrt()], dim=1)
