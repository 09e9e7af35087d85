"""The random inputs of SPADE's and OASIS's generators: noise channels and a style."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.layers import InTiles

_STREAM = 0x5354594C  # styles draw other values than the noise channels of the same seed


@dataclass(frozen=True)
class MixedSeed:
    """Names a draw between the draws of two seeds: `share` is 0 at the first and 1 at the second."""

    first: int
    second: int
    share: float


Seed = int | MixedSeed


def _draw(n: int, seed: Seed, stream: int = 0) -> Tensor:
    """Return n values of N(0, 1), on the CPU; mixed seeds are on a circle, and as likely as any."""
    if isinstance(seed, MixedSeed):
        angle = seed.share * math.pi / 2
        return math.cos(angle) * _draw(n, seed.first, stream) + math.sin(angle) * _draw(n, seed.second, stream)
    return torch.randn(n, generator=torch.Generator().manual_seed(seed ^ stream))


class NoiseChannels(nn.Module):
    """Puts channels of N(0, 1) noise, one value for each channel and image, before the channels of a condition.

    In training mode each pass draws from torch's generator of the device. In evaluation mode the noise is `drawn`,
    (N, n_channels, 1, 1), from the latest `draw_latents`, and 0 before the first.
    """

    in_tiles = InTiles(extent="every_segment")

    def __init__(self, n_channels: int) -> None:
        super().__init__()
        self.n_channels = n_channels
        self.drawn: Tensor | None = None  # no buffer, since updates and averages copy those

    def forward(self, condition: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, n_channels + C, H, W)."""
        if self.n_channels == 0:
            return condition
        n, _, height, width = condition.shape
        if self.training:
            noise = torch.randn(n, self.n_channels, 1, 1, device=condition.device)
        else:
            noise = condition.new_zeros(n, self.n_channels, 1, 1) if self.drawn is None else self.drawn
        return torch.cat([noise.to(condition).expand(n, -1, height, width), condition], dim=1)


def takes_noise(network: nn.Module) -> bool:
    """Return whether a network has noise channels."""
    return bool(_layers(network))


def _layers(network: nn.Module) -> list[NoiseChannels]:
    return [module for module in network.modules() if isinstance(module, NoiseChannels) and module.n_channels]


class StyleStem(nn.Linear):
    """Maps a style to a map of height x width pixels, resized to the sides that a source has at its lowest resolution.

    In SPADE these sides are fixed. Here the map is interpolated bilinearly for other sources, so that a larger picture
    has the same layout of the style, stretched. In prediction the style is `drawn`, (N or 1, style_channels), from the
    latest `draw_latents` or `choose_style`, and 0 before the first.
    """

    in_tiles = InTiles(extent="full_image")

    def __init__(self, style_channels: int, out_channels: int, *, height: int, width: int) -> None:
        super().__init__(style_channels, out_channels * height * width)
        self.height = height
        self.width = width
        self.drawn: Tensor | None = None  # no buffer, since updates and averages copy those

    def forward(self, condition: Tensor, style: Tensor | None = None) -> Tensor:
        """Return (N, out_channels, H, W) for the sides of a condition (N, C, H, W).

        style: (N, style_channels); None: the style of a prediction.
        """
        n, _, height, width = condition.shape
        return self.of_sides(n, height, width, style)

    def of_sides(self, n: int, height: int, width: int, style: Tensor | None = None) -> Tensor:
        """Return (n, out_channels, height, width), as `forward`."""
        if style is None:
            style = self.weight.new_zeros(1, self.in_features) if self.drawn is None else self.drawn
        style = style.to(self.weight).expand(n, -1)
        fixed = super().forward(style).view(n, -1, self.height, self.width)
        return F.interpolate(fixed, size=(height, width), mode="bilinear", align_corners=False)


def draw_latents(network: nn.Module, seeds: Sequence[Seed]) -> None:
    """Draw noise and style for evaluation mode, for each image by its seed and the same on every device."""
    for layer in _layers(network):
        layer.drawn = torch.stack([_draw(layer.n_channels, seed) for seed in seeds])[:, :, None, None]
    for stem in _stems(network):
        stem.drawn = torch.stack([_draw(stem.in_features, seed, _STREAM) for seed in seeds])


def choose_style(network: nn.Module, style: Tensor) -> None:
    """Take a style (1, style_channels) for all images from now on; without effect on a network without a style."""
    for stem in _stems(network):
        stem.drawn = style


def latent_channels(network: nn.Module) -> tuple[int, int]:
    """Return how many values of noise and of a style are drawn for an image; none of a style that is chosen."""
    n_style = next((stem.in_features for stem in _stems(network) if stem.drawn is None), 0)
    return next((layer.n_channels for layer in _layers(network)), 0), n_style


@contextmanager
def given_latents(network: nn.Module, values: Tensor | None) -> Iterator[None]:
    """Give a network the noise and the style of each image within a context, instead of drawing them.

    values: (N, n), as many as `latent_channels` returns; None changes nothing.
    """
    if values is None:
        yield
        return
    n_noise, n_style = latent_channels(network)
    drawing: list[NoiseChannels | StyleStem] = [*_layers(network), *(_stems(network) if n_style else [])]
    for part in drawing:
        part.drawn = values[:, :n_noise, None, None] if isinstance(part, NoiseChannels) else values[:, n_noise:]
    try:
        yield
    finally:  # 0 again, as before the first draw
        for part in drawing:
            part.drawn = None


def copy_chosen_style(source: nn.Module, target: nn.Module) -> None:
    """Give the style that was chosen in a network to another network with the same layers."""
    for ours, theirs in zip(_stems(source), _stems(target), strict=True):
        theirs.drawn = ours.drawn


def takes_style(network: nn.Module) -> bool:
    """Return whether a network has a style."""
    return bool(_stems(network))


def _stems(network: nn.Module) -> list[StyleStem]:
    return [module for module in network.modules() if isinstance(module, StyleStem)]
