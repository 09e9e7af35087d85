"""Reflection padding whose gradient is deterministic on a GPU where that is asked for."""

import torch
from torch import Tensor, nn


class ReflectionPadding(nn.ReflectionPad2d):
    """nn.ReflectionPad2d; under torch.use_deterministic_algorithms a GPU composes it of slices.

    torch's own gradient of it adds atomically on a GPU, in an order that differs from run to run.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, C, H + 2 p, W + 2 p)."""
        if x.is_cuda and torch.are_deterministic_algorithms_enabled():
            return reflect(x, self.padding[0])
        return super().forward(x)


def reflect(x: Tensor, padding: int) -> Tensor:
    """Return (N, C, H, W) with `padding` mirrored pixels on each side, without the pixels at the border twice."""
    for dim in (-1, -2):
        before, after = x.narrow(dim, 1, padding), x.narrow(dim, x.shape[dim] - 1 - padding, padding)
        x = torch.cat([before.flip(dim), x, after.flip(dim)], dim=dim)
    return x
