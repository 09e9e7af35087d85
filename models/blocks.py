"""Building blocks of the generators and discriminators."""

import math
from collections.abc import Sequence
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from models.activation_checkpointing import Recomputable
from models.layers import AntialiasedDownsampling, InstanceNorm, ReflectionPadding, UpsampledConv2d

Norm = Literal["instance", "batch"]
Downsample = Literal["strided", "antialiased"]
Upsample = Literal["transposed", "nearest", "bilinear", "residual", "antialiased"]
Output = Literal["tanh", "linear"]
Skips = Literal["none", "half", "full"]

_MIN_WIDTH = 16  # minimum number of channels after a doubling of the size, unless base_channels is smaller


class RecomputableSequential(Recomputable, nn.Sequential):
    """nn.Sequential that can recompute its inner activations in the backward pass instead of storing them."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layers in order."""
        return self.stored_or_recomputed(super().forward, x)


def make_norm(norm: Norm, channels: int) -> nn.Module:
    """Return an instance norm, or a batch norm with parameters and running statistics."""
    return InstanceNorm(channels) if norm == "instance" else nn.BatchNorm2d(channels)


def normed(layers: Sequence[nn.Module], channels: int, norm: Norm) -> RecomputableSequential:
    """Return `layers`, followed by a norm of `channels` channels and a ReLU."""
    return RecomputableSequential(*layers, make_norm(norm, channels), nn.ReLU(inplace=True))


def make_stem(in_channels: int, out_channels: int, norm: Norm) -> RecomputableSequential:
    """Return the first layers of pix2pixHD's generators: reflection padding, 7x7 convolution, norm, ReLU."""
    convolution = nn.Conv2d(in_channels, out_channels, kernel_size=7, bias=False)
    return normed([ReflectionPadding(3), convolution], out_channels, norm)


def make_head(in_channels: int, out_channels: int, output: Output) -> nn.Sequential:
    """Return the last layers of pix2pixHD's generators: reflection padding, 7x7 convolution, tanh or no activation."""
    convolution = nn.Conv2d(in_channels, out_channels, kernel_size=7)
    return nn.Sequential(ReflectionPadding(3), convolution, *last_activation(output))


def last_activation(output: Output) -> list[nn.Module]:
    """Return a tanh layer, or no layer if `output` is linear."""
    return [nn.Tanh()] if output == "tanh" else []


def make_down(
    in_channels: int,
    out_channels: int,
    norm: Norm,
    downsample: Downsample = "strided",
    *,
    bias: bool = False,
) -> RecomputableSequential:
    """Return layers that halve height and width: 3x3 convolution, norm and ReLU. `antialiased` adds CUT's blur."""
    stride = 2 if downsample == "strided" else 1
    convolution = nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=bias)
    layers = normed([convolution], out_channels, norm)
    return layers if downsample == "strided" else layers.append(AntialiasedDownsampling())


def make_up(in_channels: int, out_channels: int, norm: Norm, upsample: Upsample) -> nn.Module:
    """Return layers that double height and width. All but ResidualUpsampling end with a norm and a ReLU.

    transposed: 3x3 transposed convolution, as in most papers. nearest, bilinear: interpolation and a 3x3
    convolution, which together avoid checkerboard artifacts (Odena et al. 2016). residual: ResidualUpsampling.
    antialiased: bilinear interpolation and a 3x3 convolution with zero padding, as in CUT.
    """
    if upsample == "residual":
        return ResidualUpsampling(in_channels, out_channels, norm=norm)
    if upsample == "transposed":
        doubling = nn.ConvTranspose2d(in_channels, out_channels, 3, stride=2, padding=1, output_padding=1, bias=False)
        return normed([doubling], out_channels, norm)
    if upsample == "antialiased":  # CUT's filter [1 3 3 1] with replicated borders equals bilinear interpolation
        convolution = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False)
        return normed([nn.Upsample(scale_factor=2, mode="bilinear"), convolution], out_channels, norm)
    return normed(make_interpolation(in_channels, out_channels, upsample), out_channels, norm)


def make_join(channels: int, norm: Norm) -> RecomputableSequential:
    """Return layers that halve the channels to `channels`: reflection padding, 3x3 convolution, norm, ReLU."""
    return normed(_padded_conv3(2 * channels, channels), channels, norm)


def make_interpolation(
    in_channels: int, out_channels: int, mode: Literal["nearest", "bilinear"], *, bias: bool = False
) -> list[nn.Module]:
    """Return three layers: interpolation by a factor of 2, reflection padding, 3x3 convolution."""
    if mode == "nearest":  # UpsampledConv2d computes all three steps
        return [nn.Identity(), nn.Identity(), UpsampledConv2d(in_channels, out_channels, bias=bias)]
    convolution = nn.Conv2d(in_channels, out_channels, kernel_size=3, bias=bias)
    return [nn.Upsample(scale_factor=2, mode=mode), ReflectionPadding(1), convolution]


class ResidualBlock(nn.Module):
    """pix2pixHD's residual block, x + norm(conv(ReLU(norm(conv(x))))), with the optional dropout of pix2pix."""

    def __init__(self, channels: int, *, norm: Norm, dropout: bool = False) -> None:
        super().__init__()
        first = normed(_padded_conv3(channels, channels), channels, norm)
        drop = [nn.Dropout(0.5)] if dropout else []
        self.body = first.extend([*drop, *_padded_conv3(channels, channels), make_norm(norm, channels)])

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, C, H, W); H and W are at least 2."""
        return x + self.body(x)


class ResidualUpsampling(nn.Module):
    """Pre-activation residual block that doubles height and width: norm, ReLU, upsampling, conv, norm, ReLU, conv."""

    def __init__(self, in_channels: int, out_channels: int, *, norm: Norm) -> None:
        super().__init__()
        self.body = RecomputableSequential(
            make_norm(norm, in_channels),
            nn.ReLU(inplace=True),
            *make_interpolation(in_channels, out_channels, "nearest"),
            make_norm(norm, out_channels),
            nn.ReLU(inplace=True),
            *_padded_conv3(out_channels, out_channels),
        )
        self.shortcut = nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, 2 H, 2 W)."""
        # a 1x1 convolution commutes with nearest-neighbour upsampling, and costs a quarter if it comes first
        return self.body(x) + F.interpolate(self.shortcut(x), scale_factor=2, mode="nearest")


def _padded_conv3(in_channels: int, out_channels: int) -> list[nn.Module]:
    return [ReflectionPadding(1), nn.Conv2d(in_channels, out_channels, kernel_size=3, bias=False)]


def n_doublings(scale: float) -> int:
    """Return how often height and width double: 2 for a scale of 4, and -1 for a scale of 1/2 (one halving)."""
    return round(math.log2(scale))


def widths_beyond(base_channels: int, scale: float) -> list[int]:
    """Return the number of channels after each doubling of the size. Each doubling halves the channels, down to 16."""
    narrowest = min(base_channels, _MIN_WIDTH)
    return [max(base_channels // 2**level, narrowest) for level in range(1, n_doublings(scale) + 1)]
