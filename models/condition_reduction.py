"""Reduction of a condition to the sides of a generator's coarser layers."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ConditionReduction(nn.Module):
    """Divides the sides of a condition by `factor`.

    Channels of an image are averaged over their area; those of one-hot labels, edges, features and noise take the first
    pixel of each square, the nearest one by torch's rule, so that labels stay one-hot (SPADE).

    n_noise_channels, n_image_channels: the numbers of channels of noise and labels, and of an image behind them.
    """

    def __init__(self, factor: int, *, n_noise_channels: int = 0, n_image_channels: int = 0) -> None:
        super().__init__()
        self.factor = factor
        self._image_begin = n_noise_channels
        self._image_end = n_noise_channels + n_image_channels

    @property
    def takes_image(self) -> bool:
        """Whether channels of the condition are those of an image."""
        return self._image_begin != self._image_end

    def forward(self, condition: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, C, H / factor, W / factor); H and W are multiples of the factor."""
        if self.factor == 1:
            return condition
        if not self.takes_image:
            return self._nearest(condition)
        noise, image, maps = condition.tensor_split((self._image_begin, self._image_end), dim=1)
        parts = [self._nearest(noise)] if self._image_begin else []
        parts.append(F.avg_pool2d(image, self.factor))
        parts += [self._nearest(maps)] if maps.shape[1] else []
        return torch.cat(parts, dim=1)

    def _nearest(self, condition: Tensor) -> Tensor:
        sides = [side // self.factor for side in condition.shape[2:]]
        return F.interpolate(condition, size=sides, mode="nearest")
