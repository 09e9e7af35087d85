"""pix2pixHD's global generator, which with 2 downsamplings is pix2pix's ResNet generator."""

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from models.blocks import (
    Downsample,
    Norm,
    Output,
    Padding,
    ResidualBlock,
    Upsample,
    make_down,
    make_head,
    make_stem,
    make_up,
    n_doublings,
    widths_beyond,
)
from models.generator import Generator, ImageSides
from models.layers import UniformToZeros

_LAYERS = re.compile(r"stem\.\d+|downs\.\d+\.\d+|blocks\.\d+")  # whose outputs are features


class GlobalTrunk(nn.Module):
    """The global generator without its head, which the local enhancer builds on."""

    def __init__(
        self,
        *,
        in_channels: int,
        base_channels: int = 64,
        n_downsamplings: int = 4,
        n_blocks: int = 9,
        norm: Norm = "instance",
        dropout: bool = False,
        upsample: Upsample = "transposed",
        padding: Padding = "zeros",
        downsample: Downsample = "strided",
        biased_downs: bool = False,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.downsample, self.upsample, self.biased_downs = downsample, upsample, biased_downs
        widths = [base_channels * 2**level for level in range(n_downsamplings + 1)]
        self.stem = make_stem(in_channels, base_channels, norm)
        self.downs = nn.Sequential(
            *(
                make_down(narrow, wide, norm, padding, downsample, bias=biased_downs)
                for narrow, wide in pairwise(widths)
            )
        )
        self.blocks = nn.Sequential(*(ResidualBlock(widths[-1], norm=norm, dropout=dropout) for _ in range(n_blocks)))
        n_left_out = max(-n_doublings(scale), 0)
        rising = [*reversed(widths[n_left_out:]), *widths_beyond(base_channels, scale)]
        self.ups = nn.Sequential(*(make_up(wide, narrow, norm, upsample) for wide, narrow in pairwise(rising)))
        self.out_channels = rising[-1]

    def forward(self, source: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, C, scale * H, scale * W); C is base_channels at a scale of 1."""
        return self.ups(self.blocks(self.downs(self.stem(source))))


class GlobalGenerator(GlobalTrunk, Generator):
    """Encoder, residual blocks, decoder (Wang et al. 2018, section 3.1; Johnson et al. 2016).

    A 7x7 stem, `n_downsamplings` strided convolutions that double the channels, `n_blocks` residual blocks,
    `n_downsamplings` upsamplings, a 7x7 head with tanh. Convolutions before a norm have no bias, since the norm
    subtracts the mean. pix2pix's ResNet generator has 2 downsamplings, 6 or 9 blocks, and dropout; CycleGAN's is the
    same, and CUT's down- and upsampling are antialiased.

    biased_downs: whether the strided convolutions have biases, which count where features before the norm are compared.
    scale: sides of the output, in those of the source, a power of 2: more upsamplings, each of which halves the
        channels, or fewer of them.
    output: tanh, or linear for values without bounds.
    """

    def __init__(
        self,
        *,
        in_channels: int,
        out_channels: int = 3,
        base_channels: int = 64,
        n_downsamplings: int = 4,
        n_blocks: int = 9,
        norm: Norm = "instance",
        dropout: bool = False,
        upsample: Upsample = "transposed",
        padding: Padding = "zeros",
        downsample: Downsample = "strided",
        biased_downs: bool = False,
        scale: float = 1.0,
        output: Output = "tanh",
    ) -> None:
        super().__init__(
            in_channels=in_channels,
            base_channels=base_channels,
            n_downsamplings=n_downsamplings,
            n_blocks=n_blocks,
            norm=norm,
            dropout=dropout,
            upsample=upsample,
            padding=padding,
            downsample=downsample,
            biased_downs=biased_downs,
            scale=scale,
        )
        self.head = make_head(self.out_channels, out_channels, output)
        self.uniform = UniformToZeros() if norm == "instance" else nn.Identity()

    @staticmethod
    def image_sides(*, n_downsamplings: int, scale: float = 1.0) -> ImageSides:
        """Return the sides that the generator takes.

        Reflection at the lowest resolution needs a second pixel, and that of the head a fourth.
        """
        multiple = 2**n_downsamplings
        return ImageSides(multiple, minimum=max(2 * multiple, math.ceil(4 / scale)))

    @staticmethod
    def without_effect(*, n_blocks: int) -> Sequence[str]:
        """Return dropout where there is no block for it."""
        return () if n_blocks else ("dropout",)

    def forward(self, source: Tensor) -> Tensor:
        """Translate (N, in_channels, H, W) into (N, out_channels, scale * H, scale * W); `image_sides` bounds H and W.

        The output is in [-1, 1], unless it is linear.
        """
        return self.head(super().forward(self.uniform(source)))

    def features(self, source: Tensor, taps: Sequence[str]) -> list[Tensor]:
        """Return the outputs of these layers of the encoder and the blocks, in their order; computes none behind them.

        taps: names of modules, as `stem.0`, `downs.1.0` or `blocks.4`, but no norms, whose outputs the ReLU behind them
            overwrites. Raises KeyError with the names that there are.
        """
        return self._encoded(source, taps, stops=True)[1]

    def translate_with_features(self, source: Tensor, taps: Sequence[str]) -> tuple[Tensor, list[Tensor]]:
        """Return the translation and the features at `taps`, from one pass; in training mode."""
        encoded, features = self._encoded(source, taps, stops=False)
        return self.head(self.ups(encoded)), features

    def _encoded(self, x: Tensor, taps: Sequence[str], *, stops: bool) -> tuple[Tensor, list[Tensor]]:
        layers = {name: layer for name, layer in self.named_modules() if _LAYERS.fullmatch(name)}
        known = [name for name, layer in layers.items() if not isinstance(layer, nn.InstanceNorm2d | nn.BatchNorm2d)]
        if unknown := set(taps).difference(known):
            raise KeyError(f"no layer {min(unknown)}; there are {', '.join(known)}")
        features = []
        for name, layer in layers.items():
            x = layer(x)
            if name in taps:
                features.append(x)
                if stops and len(features) == len(taps):
                    break
        return x, features
