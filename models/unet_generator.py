"""pix2pix's U-Net generator."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from models.blocks import (
    Norm,
    Output,
    RecomputableSequential,
    last_activation,
    make_interpolation,
    make_norm,
    n_doublings,
    widths_beyond,
)
from models.generator import Generator, ImageSides

Upsample = Literal["transposed", "nearest", "bilinear"]


class UnetGenerator(Generator):
    """Encoder and decoder with a skip connection at every resolution (Isola et al. 2017, section 6.1.1).

    The channels double up to 8 * base_channels. As in pix2pix, a convolution that no norm follows has a bias only if
    `norm` is instance. The last convolution always has a bias.

    n_downsamplings: Number of levels, each with a strided convolution and an upsampling. At least 5; unet_256 has 8.
    dropout: Whether the decoder's inner levels drop half of their activations. This is pix2pix's noise source.
    upsample: Transposed 4x4 convolutions, as in pix2pix, or interpolation and 3x3 convolutions, which cause no
        checkerboard artifacts (Odena et al. 2016).
    scale: Height of the output divided by the height of the source, a power of 2. Above 1, the decoder has
        additional upsamplings without skip connections, which halve the channels. Below 1, it has fewer levels.
    """

    def __init__(
        self,
        *,
        in_channels: int,
        out_channels: int = 3,
        base_channels: int = 64,
        n_downsamplings: int = 8,
        norm: Norm = "batch",
        dropout: bool = True,
        upsample: Upsample = "transposed",
        scale: float = 1.0,
        output: Output = "tanh",
    ) -> None:
        super().__init__()
        widths = [base_channels * min(2**level, 8) for level in range(n_downsamplings)]
        has_bias = norm == "instance"
        innermost = n_downsamplings - 1
        self.downs = nn.ModuleList([_conv4(in_channels, widths[0], bias=has_bias)])
        for level in range(1, n_downsamplings):
            is_bare = level == innermost  # instance norm would set a single pixel to 0
            layers = [nn.LeakyReLU(0.2), _conv4(widths[level - 1], widths[level], bias=is_bare and has_bias)]
            self.downs.append(RecomputableSequential(*layers, *([] if is_bare else [make_norm(norm, widths[level])])))
        self.ups = nn.ModuleList()
        outermost = max(-n_doublings(scale), 0)
        for level in range(innermost, outermost, -1):
            width_in = widths[level] * (1 if level == innermost else 2)
            up = _normed_up(width_in, widths[level - 1], upsample, norm)
            self.ups.append(up.append(nn.Dropout(0.5)) if dropout and 4 <= level < innermost else up)
        before_head = [2 * widths[outermost], *widths_beyond(base_channels, scale)]
        self.beyond = nn.Sequential(*(_normed_up(*channels, upsample, norm) for channels in pairwise(before_head)))
        last = _make_up(before_head[-1], out_channels, upsample, bias=True)
        self.head = nn.Sequential(nn.ReLU(), *last, *last_activation(output))

    @staticmethod
    def image_sides(*, n_downsamplings: int) -> ImageSides:
        """Return the allowed image sizes, which leave at least one pixel at the lowest level."""
        multiple = 2**n_downsamplings
        return ImageSides(multiple, minimum=multiple)

    @staticmethod
    def unsupported(*, n_downsamplings: int, upsample: str) -> Mapping[str, str]:
        """Reject fewer than 5 levels, and upsamplings that only ResNet generators support."""
        return {
            **({"n_downsamplings": "at least 5"} if n_downsamplings < 5 else {}),
            **({} if upsample in get_args(Upsample) else {"upsample": " or ".join(get_args(Upsample))}),
        }

    @staticmethod
    def without_effect(*, n_downsamplings: int) -> Sequence[str]:
        """Return `dropout` if the decoder is too small to have dropout layers."""
        return ("dropout",) if n_downsamplings == 5 else ()

    def forward(self, source: Tensor) -> Tensor:
        """Translate (N, in_channels, H, W) into (N, out_channels, scale * H, scale * W), in [-1, 1] with tanh."""
        skips = []
        x = source
        for down in self.downs:
            x = down(x)
            skips.append(x)
        skips.pop()
        for up in self.ups:
            x = torch.cat([skips.pop(), up(x)], dim=1)
        return self.head(self.beyond(x))


def _conv4(in_channels: int, out_channels: int, *, bias: bool) -> nn.Conv2d:
    return nn.Conv2d(in_channels, out_channels, kernel_size=4, stride=2, padding=1, bias=bias)


def _normed_up(in_channels: int, out_channels: int, upsample: Upsample, norm: Norm) -> RecomputableSequential:
    layers = _make_up(in_channels, out_channels, upsample)
    return RecomputableSequential(nn.ReLU(), *layers, make_norm(norm, out_channels))


def _make_up(in_channels: int, out_channels: int, upsample: Upsample, *, bias: bool = False) -> list[nn.Module]:
    if upsample == "transposed":
        return [nn.ConvTranspose2d(in_channels, out_channels, kernel_size=4, stride=2, padding=1, bias=bias)]
    return make_interpolation(in_channels, out_channels, upsample, bias=bias)
