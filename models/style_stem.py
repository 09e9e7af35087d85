"""The first layer of SPADE's generator with a style: from a vector to the map of the lowest resolution."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_STREAM = 0x5354594C  # makes other seeds, so that styles are not the noise channels of the same images


class StyleStem(nn.Linear):
    """Maps a style to a map of height x width pixels, resized to the sides that a source has at its lowest resolution.

    In SPADE these sides are fixed. Here the map is interpolated bilinearly where a source has others, so that a larger
    picture has the same layout of the style, stretched. At height x width pixels that changes nothing.

    In prediction the style is that of the latest `draw` or `choose`, and 0, the mean of N(0, I), before the first.
    """

    def __init__(self, style_channels: int, out_channels: int, *, height: int, width: int) -> None:
        super().__init__(style_channels, out_channels * height * width)
        self.height = height
        self.width = width
        self._style: Tensor | None = None  # (N or 1, style_channels); no buffer, since updates and averages copy those

    def forward(self, condition: Tensor, style: Tensor | None = None) -> Tensor:
        """Return (N, out_channels, H, W) for the sides of a condition (N, C, H, W).

        style: (N, style_channels); None: that of the latest `draw` or `choose`.
        """
        n, _, height, width = condition.shape
        return self.map(n, height, width, style)

    def map(self, n: int, height: int, width: int, style: Tensor | None = None) -> Tensor:
        """Return (n, out_channels, height, width), as `forward`."""
        if style is None:
            style = self.weight.new_zeros(1, self.in_features) if self._style is None else self._style
        style = style.to(self.weight).expand(n, -1)
        fixed = super().forward(style).view(n, -1, self.height, self.width)
        return F.interpolate(fixed, size=(height, width), mode="bilinear", align_corners=False)

    def draw(self, seeds: Sequence[int]) -> None:
        """Draw the styles of a batch from N(0, I), for each image by its own seed and the same on every device."""
        generators = [torch.Generator().manual_seed(seed ^ _STREAM) for seed in seeds]
        self._style = torch.stack([torch.randn(self.in_features, generator=generator) for generator in generators])

    def choose(self, style: Tensor) -> None:
        """Take a style (1, style_channels) for all images from now on."""
        self._style = style


def choose_styles(network: nn.Module, seeds: Sequence[int], style: Tensor | None) -> None:
    """Take `style`, (1, style_channels), for each image of a batch, or draw one by its seed where it is None.

    Without effect on a network without a style.
    """
    for stem in _stems(network):
        if style is None:
            stem.draw(seeds)
        else:
            stem.choose(style)


def copy_chosen_style(source: nn.Module, target: nn.Module) -> None:
    """Give the style that was chosen in a network to another of the same form, in place."""
    for ours, theirs in zip(_stems(source), _stems(target), strict=True):
        theirs._style = ours._style


def takes_style(network: nn.Module) -> bool:
    """Return whether a network has a style."""
    return bool(_stems(network))


def _stems(network: nn.Module) -> list[StyleStem]:
    return [module for module in network.modules() if isinstance(module, StyleStem)]
