"""Building blocks of the generators and discriminators."""

import math
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from models.activation_checkpointing import Recomputable
from models.layers import AntialiasedDownsampling, InstanceNorm, ReflectionPadding, UpsampledConv2d, WideConv2d

Norm = Literal["instance", "batch"]
Downsample = Literal["strided", "antialiased"]
Upsample = Literal["transposed", "nearest", "bilinear", "residual", "antialiased"]
Padding = Literal["zeros", "reflect"]
Output = Literal["tanh", "linear"]
Skips = Literal["none", "half", "full"]

_NARROWEST = 16  # channels of a convolution at a multiple of the source's sides, unless base_channels is less


class RecomputableSequential(Recomputable, nn.Sequential):
    """nn.Sequential that can recompute its inner activations in the backward pass instead of storing them."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layers in order."""
        return self.stored_or_recomputed(super().forward, x)


def make_norm(norm: Norm, channels: int) -> nn.Module:
    """Return the originals' normalisation layer; instance norm has neither parameters nor running statistics."""
    return InstanceNorm(channels) if norm == "instance" else nn.BatchNorm2d(channels)


def make_stem(in_channels: int, out_channels: int, norm: Norm) -> RecomputableSequential:
    """Return the first layers of pix2pixHD's generators: reflection padding, 7x7 convolution, norm, ReLU."""
    return RecomputableSequential(
        ReflectionPadding(3),
        nn.Conv2d(in_channels, out_channels, kernel_size=7, bias=False),
        make_norm(norm, out_channels),
        nn.ReLU(inplace=True),
    )


def make_head(in_channels: int, out_channels: int, output: Output) -> nn.Sequential:
    """Return the last layers of pix2pixHD's generators: reflection padding, 7x7 convolution, tanh."""
    convolution = nn.Conv2d(in_channels, out_channels, kernel_size=7)
    return nn.Sequential(ReflectionPadding(3), convolution, *last_activation(output))


def last_activation(output: Output) -> list[nn.Module]:
    """Return tanh, as in the originals, or no layer, for values without bounds."""
    return [nn.Tanh()] if output == "tanh" else []


def make_down(
    in_channels: int,
    out_channels: int,
    norm: Norm,
    padding: Padding,
    downsample: Downsample = "strided",
    *,
    bias: bool = False,
) -> RecomputableSequential:
    """Return layers that halve the sides: 3x3 convolution, norm, ReLU.

    Zeros are the originals' padding; reflection avoids bright spots at the borders. The convolution is strided, or of
    stride 1 before CUT's antialiased downsampling.
    """
    stride = 2 if downsample == "strided" else 1
    return RecomputableSequential(
        nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, padding_mode=padding, bias=bias),
        make_norm(norm, out_channels),
        nn.ReLU(inplace=True),
        *([AntialiasedDownsampling()] if downsample == "antialiased" else []),
    )


def make_up(in_channels: int, out_channels: int, norm: Norm, upsample: Upsample) -> nn.Module:
    """Return layers that double the sides.

    transposed: 3x3 transposed convolution, norm, ReLU, as in the originals. nearest, bilinear: interpolation, then a
    reflection-padded 3x3 convolution, norm, ReLU, which avoid checkerboard artifacts (Odena et al. 2016).
    residual: ResidualUpsampling. antialiased: CUT's, bilinear interpolation and a 3x3 convolution padded with zeros.
    """
    layers: list[nn.Module]
    match upsample:
        case "residual":
            return ResidualUpsampling(in_channels, out_channels, norm=norm)
        case "transposed":
            doubling = nn.ConvTranspose2d(
                in_channels, out_channels, 3, stride=2, padding=1, output_padding=1, bias=False
            )
            layers = [doubling]
        case "antialiased":  # its [1 3 3 1] filter with replicated borders is bilinear interpolation, to the bit
            convolution = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False)
            layers = [nn.Upsample(scale_factor=2, mode="bilinear"), convolution]
        case _:
            layers = make_interpolation(in_channels, out_channels, upsample)
    return RecomputableSequential(*layers, make_norm(norm, out_channels), nn.ReLU(inplace=True))


def make_join(channels: int, norm: Norm) -> RecomputableSequential:
    """Return layers that halve the channels of two concatenated maps: reflection-padded 3x3 convolution, norm, ReLU."""
    return RecomputableSequential(
        *_padded_conv3(2 * channels, channels), make_norm(norm, channels), nn.ReLU(inplace=True)
    )


def make_interpolation(
    in_channels: int, out_channels: int, mode: Literal["nearest", "bilinear"], *, bias: bool = False
) -> list[nn.Module]:
    """Return three layers: interpolation to twice the sides, reflection padding, 3x3 convolution."""
    if mode == "nearest":  # one layer computes all three
        return [nn.Identity(), nn.Identity(), UpsampledConv2d(in_channels, out_channels, bias=bias)]
    convolution = WideConv2d(in_channels, out_channels, kernel_size=3, bias=bias)
    return [nn.Upsample(scale_factor=2, mode=mode), ReflectionPadding(1), convolution]


class ResidualBlock(nn.Module):
    """x + norm(conv(ReLU(norm(conv(x))))) with reflection padding and no ReLU after the sum (pix2pixHD).

    dropout: whether half of the activations between the convolutions are dropped, which is pix2pix's noise.
    """

    def __init__(self, channels: int, *, norm: Norm, dropout: bool = False) -> None:
        super().__init__()
        self.body = RecomputableSequential(
            *_padded_conv3(channels, channels),
            make_norm(norm, channels),
            nn.ReLU(inplace=True),
            *([nn.Dropout(0.5)] if dropout else []),
            *_padded_conv3(channels, channels),
            make_norm(norm, channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, C, H, W); H and W are at least 2."""
        return x + self.body(x)


class ResidualUpsampling(nn.Module):
    """Pre-activation residual block that doubles the sides: norm, ReLU, upsampling, conv, norm, ReLU, conv."""

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
        # a 1x1 convolution and nearest-neighbour upsampling commute; before the upsampling it costs a quarter
        return self.body(x) + F.interpolate(self.shortcut(x), scale_factor=2, mode="nearest")


def _padded_conv3(in_channels: int, out_channels: int) -> list[nn.Module]:
    return [ReflectionPadding(1), WideConv2d(in_channels, out_channels, kernel_size=3, bias=False)]


def n_doublings(scale: float) -> int:
    """Return how often the sides of a source are doubled; halvings are negative. `scale` is a power of 2."""
    return round(math.log2(scale))


def widths_beyond(base_channels: int, scale: float) -> list[int]:
    """Return the channels after each doubling beyond the sides of the source: half of those before, down to 16."""
    narrowest = min(base_channels, _NARROWEST)
    return [max(base_channels // 2**level, narrowest) for level in range(1, n_doublings(scale) + 1)]
