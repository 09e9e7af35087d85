"""The random inputs of SPADE's and OASIS's generators: noise channels and a style."""

import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.layers import InTiles

_STREAM = 0x5354594C  # XORed with the seed of a style, so that style and noise differ


@dataclass(frozen=True)
class MixedSeed:
    """An interpolation between the random values of two seeds: share 0 means `first`, share 1 means `second`."""

    first: int
    second: int
    share: float


Seed = int | MixedSeed


def _draw(n: int, seed: Seed, stream: int = 0) -> Tensor:
    """Return n normal random values on the CPU. A MixedSeed weights two draws with cos and sin, which keeps N(0, 1)."""
    if isinstance(seed, MixedSeed):
        angle = seed.share * math.pi / 2
        return math.cos(angle) * _draw(n, seed.first, stream) + math.sin(angle) * _draw(n, seed.second, stream)
    return torch.randn(n, generator=torch.Generator().manual_seed(seed ^ stream))


def image_seed(seed: int, name: str) -> int:
    """Return the seed for an image's random values. It does not depend on the other images of the run."""
    return zlib.crc32(f"{seed}/{name}".encode(errors="surrogateescape"))  # file names can contain any bytes


class NoiseChannels(nn.Module):
    """Layer that concatenates N(0, 1) noise and a condition. A noise channel has one value for all pixels of an image.

    In training mode, each pass draws new noise with the random state of the device.

    drawn: Noise for evaluation mode, set by `draw_latents`, (N, n_channels, 1, 1). None means zeros.
    """

    in_tiles = InTiles(extent="every_segment")

    def __init__(self, n_channels: int) -> None:
        super().__init__()
        self.n_channels = n_channels
        self.drawn: Tensor | None = None  # not a buffer, because weight averaging copies buffers

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


class StyleStem(nn.Linear):
    """Linear layer that maps a style to feature maps and resizes the maps to the condition's size.

    Before resizing, the maps have height x width pixels. SPADE does not resize, and allows only one condition size.

    drawn: Style for prediction, set by `draw_latents` or `choose_style`, (N or 1, style_channels). None means zeros.
    """

    def __init__(self, style_channels: int, out_channels: int, *, height: int, width: int) -> None:
        super().__init__(style_channels, out_channels * height * width)
        self.height = height
        self.width = width
        self.drawn: Tensor | None = None  # not a buffer, because weight averaging copies buffers

    def forward(self, condition: Tensor, style: Tensor | None = None) -> Tensor:
        """Return (N, out_channels, H, W). condition: (N, C, H, W). style: (N, style_channels); None means `drawn`."""
        n, _, height, width = condition.shape
        if style is None:
            style = self.weight.new_zeros(1, self.in_features) if self.drawn is None else self.drawn
        style = style.to(self.weight).expand(n, -1)
        maps = super().forward(style).view(n, -1, self.height, self.width)
        return F.interpolate(maps, size=(height, width), mode="bilinear", align_corners=False)


_Part = TypeVar("_Part", NoiseChannels, StyleStem)


def _parts(network: nn.Module, kind: type[_Part]) -> list[_Part]:
    return [module for module in network.modules() if isinstance(module, kind)]


def takes_noise(network: nn.Module) -> bool:
    """Return whether a network has noise channels."""
    return any(layer.n_channels for layer in _parts(network, NoiseChannels))


def takes_style(network: nn.Module) -> bool:
    """Return whether a network has a style input."""
    return bool(_parts(network, StyleStem))


def draw_latents(network: nn.Module, seeds: Sequence[Seed]) -> None:
    """Set noise and style for evaluation mode from the seed of each image. The values do not depend on the device."""
    for layer in _parts(network, NoiseChannels):
        layer.drawn = torch.stack([_draw(layer.n_channels, seed) for seed in seeds])[:, :, None, None]
    for stem in _parts(network, StyleStem):
        stem.drawn = torch.stack([_draw(stem.in_features, seed, _STREAM) for seed in seeds])


def choose_style(network: nn.Module, style: Tensor) -> None:
    """Use a style (1, style_channels) for all following images."""
    for stem in _parts(network, StyleStem):
        stem.drawn = style


def latent_channels(network: nn.Module) -> tuple[int, int]:
    """Return how many noise and style values to draw for an image. After `choose_style`, draw no style values."""
    n_style = next((stem.in_features for stem in _parts(network, StyleStem) if stem.drawn is None), 0)
    return sum(layer.n_channels for layer in _parts(network, NoiseChannels)), n_style


@contextmanager
def given_latents(network: nn.Module, values: Tensor | None) -> Iterator[None]:
    """Context manager: the network uses the given noise and style of each image.

    values: Noise values, then style values, (N, sum of `latent_channels`). None changes nothing.
    """
    given: dict[NoiseChannels | StyleStem, Tensor] = {}
    if values is not None:
        n_noise, n_style = latent_channels(network)
        given |= {layer: values[:, :n_noise, None, None] for layer in _parts(network, NoiseChannels)}
        given |= {stem: values[:, n_noise:] for stem in _parts(network, StyleStem) if n_style}
    for part, drawn in given.items():
        part.drawn = drawn
    try:
        yield
    finally:
        for part in given:
            part.drawn = None  # zeros, as before the first draw


def copy_chosen_style(source: nn.Module, target: nn.Module) -> None:
    """Copy the chosen style from `source` to `target`, which has the same layers."""
    for ours, theirs in zip(_parts(source, StyleStem), _parts(target, StyleStem), strict=True):
        theirs.drawn = ours.drawn
