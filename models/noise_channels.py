"""Noise as further channels of a condition, constant over each image: OASIS's 3D noise (Schönfeld et al. 2021)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class NoiseChannels(nn.Module):
    """Puts channels of N(0, 1) noise, one value for each channel and image, before the channels of a condition.

    In training mode each pass draws from torch's generator of the device. In evaluation mode the noise is that of the
    latest `draw`, and 0, its mean, before the first.

    n_channels: number of these channels; with 0 the condition stays as it is.
    """

    def __init__(self, n_channels: int) -> None:
        super().__init__()
        self.n_channels = n_channels
        self._drawn: Tensor | None = None  # (N, n_channels, 1, 1); no buffer, since updates and averages copy those

    def forward(self, condition: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, n_channels + C, H, W)."""
        if self.n_channels == 0:
            return condition
        n, _, height, width = condition.shape
        if self.training:
            noise = torch.randn(n, self.n_channels, 1, 1, device=condition.device)
        else:
            noise = condition.new_zeros(n, self.n_channels, 1, 1) if self._drawn is None else self._drawn
        return torch.cat([noise.to(condition).expand(n, -1, height, width), condition], dim=1)

    def draw(self, seeds: Sequence[int]) -> None:
        """Draw the noise of a batch in evaluation mode, for each image by its own seed and the same on every device."""
        rows = [torch.randn(self.n_channels, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
        self._drawn = torch.stack(rows)[:, :, None, None]


def draw_noise(network: nn.Module, seeds: Sequence[int]) -> None:
    """Draw the noise of each image of a batch by its seed; without effect on a network that takes none."""
    for layer in _layers(network):
        layer.draw(seeds)


def takes_noise(network: nn.Module) -> bool:
    """Return whether a network has noise channels."""
    return bool(_layers(network))


def _layers(network: nn.Module) -> list[NoiseChannels]:
    return [module for module in network.modules() if isinstance(module, NoiseChannels) and module.n_channels]
