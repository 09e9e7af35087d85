"""The random inputs of SPADE's and OASIS's generators: noise channels and a style."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.layers import InTiles

_STREAM = 0x5354594C  # makes other seeds, so that styles are not the noise channels of the same images


@dataclass(frozen=True)
class MixedSeed:
    """Names a draw between those of two seeds: `share` is 0 at the first and 1 at the second."""

    first: int
    second: int
    share: float


Seed = int | MixedSeed


def _draw(n: int, seed: Seed, stream: int = 0) -> Tensor:
    """Return n values of N(0, 1), on the CPU; those of a mixed seed are on a circle, and as likely as any."""
    if isinstance(seed, MixedSeed):
        angle = seed.share * math.pi / 2
        return math.cos(angle) * _draw(n, seed.first, stream) + math.sin(angle) * _draw(n, seed.second, stream)
    return torch.randn(n, generator=torch.Generator().manual_seed(seed ^ stream))


class NoiseChannels(nn.Module):
    """Puts channels of N(0, 1) noise, one value for each channel and image, before the channels of a condition.

    In training mode each pass draws from torch's generator of the device. In evaluation mode the noise is that of the
    latest `draw`, and 0, its mean, before the first.

    n_channels: number of these channels; with 0 the condition stays as it is.
    """

    in_tiles = InTiles(extent="every_segment")

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

    def draw(self, seeds: Sequence[Seed]) -> None:
        """Draw the noise of a batch in evaluation mode, for each image by its own seed and the same on every device."""
        self._drawn = torch.stack([_draw(self.n_channels, seed) for seed in seeds])[:, :, None, None]


def draw_noise(network: nn.Module, seeds: Sequence[Seed]) -> None:
    """Draw the noise of each image of a batch by its seed; without effect on a network that takes none."""
    for layer in _layers(network):
        layer.draw(seeds)


def takes_noise(network: nn.Module) -> bool:
    """Return whether a network has noise channels."""
    return bool(_layers(network))


def _layers(network: nn.Module) -> list[NoiseChannels]:
    return [module for module in network.modules() if isinstance(module, NoiseChannels) and module.n_channels]


class StyleStem(nn.Linear):
    """Maps a style to a map of height x width pixels, resized to the sides that a source has at its lowest resolution.

    In SPADE these sides are fixed. Here the map is interpolated bilinearly where a source has others, so that a larger
    picture has the same layout of the style, stretched. At height x width pixels that changes nothing.

    In prediction the style is that of the latest `draw` or `choose`, and 0, the mean of N(0, I), before the first.
    """

    in_tiles = InTiles(extent="full_image")

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
        return self.of_sides(n, height, width, style)

    def of_sides(self, n: int, height: int, width: int, style: Tensor | None = None) -> Tensor:
        """Return (n, out_channels, height, width), as `forward`."""
        if style is None:
            style = self.weight.new_zeros(1, self.in_features) if self._style is None else self._style
        style = style.to(self.weight).expand(n, -1)
        fixed = super().forward(style).view(n, -1, self.height, self.width)
        return F.interpolate(fixed, size=(height, width), mode="bilinear", align_corners=False)

    def draw(self, seeds: Sequence[Seed]) -> None:
        """Draw the styles of a batch from N(0, I), for each image by its own seed and the same on every device."""
        self._style = torch.stack([_draw(self.in_features, seed, _STREAM) for seed in seeds])

    def choose(self, style: Tensor) -> None:
        """Take a style (1, style_channels) for all images from now on."""
        self._style = style


def choose_styles(network: nn.Module, seeds: Sequence[Seed], style: Tensor | None) -> None:
    """Take `style`, (1, style_channels), for each image of a batch, or draw one by its seed where it is None.

    Without effect on a network without a style.
    """
    for stem in _stems(network):
        if style is None:
            stem.draw(seeds)
        else:
            stem.choose(style)


def latent_channels(network: nn.Module) -> tuple[int, int]:
    """Return how many values of noise and of a style are drawn for an image; none of a style that is chosen."""
    n_style = next((stem.in_features for stem in _stems(network) if stem._style is None), 0)
    return next((layer.n_channels for layer in _layers(network)), 0), n_style


@contextmanager
def given_latents(network: nn.Module, values: Tensor | None) -> Iterator[None]:
    """Give a network the noise and the style of each image, in place of drawing them, within a context.

    values: (N, n), of the numbers of `latent_channels`; None changes nothing.
    """
    if values is None:
        yield
        return
    n_noise, n_style = latent_channels(network)
    layers, stems = _layers(network), _stems(network) if n_style else []
    for layer in layers:
        layer._drawn = values[:, :n_noise, None, None]
    for stem in stems:
        stem._style = values[:, n_noise:]
    try:
        yield
    finally:  # 0 again, as before the first `draw`
        for layer in layers:
            layer._drawn = None
        for stem in stems:
            stem._style = None


def copy_chosen_style(source: nn.Module, target: nn.Module) -> None:
    """Give the style that was chosen in a network to another with the same layers, in place."""
    for ours, theirs in zip(_stems(source), _stems(target), strict=True):
        theirs._style = ours._style


def takes_style(network: nn.Module) -> bool:
    """Return whether a network has a style."""
    return bool(_stems(network))


def _stems(network: nn.Module) -> list[StyleStem]:
    return [module for module in network.modules() if isinstance(module, StyleStem)]
