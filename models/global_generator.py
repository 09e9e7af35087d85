"""pix2pixHD's generators: the global generator, which is also pix2pix's ResNet generator, and the local enhancer."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.blocks import (
    Downsample,
    Norm,
    Output,
    ResidualBlock,
    Skips,
    Upsample,
    make_down,
    make_head,
    make_join,
    make_stem,
    make_up,
    n_doublings,
    widths_beyond,
)
from models.generator import Generator, ImageSides
from models.layers import UniformToZeros

_TAPPED = re.compile(r"stem\.\d+|downs\.\d+\.\d+|blocks\.\d+")  # layers whose outputs `features` can return


class GlobalGenerator(Generator):
    """A generator with encoder, residual blocks and decoder (Wang et al. 2018, section 3.1; Johnson et al. 2016).

    The layers are a 7x7 stem, `n_downsamplings` strided convolutions that double the channels, `n_blocks` residual
    blocks, `n_downsamplings` upsamplings, and a 7x7 head with tanh. Convolutions before a norm have no bias, because
    the norm would cancel it. pix2pix's and CycleGAN's ResNet generator has 2 downsamplings, 6 or 9 blocks, and dropout.
    CUT's generator has antialiased down- and upsamplings.

    skips: Skip connections. half: at lower resolutions, the decoder adds encoder activations (Mao et al. 2016). full:
        at full resolution, it also concatenates them, before a convolution. full needs a scale of at least 1.
    biased_downs: Whether the convolutions of stem and downsamplings have biases. Norms cancel biases, but CUT's loss
        compares features before the norms.
    scale: Height of the output divided by the height of the source, a power of 2. Above 1, further upsamplings follow,
        and each halves the channels. Below 1, the decoder has fewer upsamplings.
    output: tanh, linear (no activation), or None (no head).
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
        downsample: Downsample = "strided",
        skips: Skips = "none",
        biased_downs: bool = False,
        scale: float = 1.0,
        output: Output | None = "tanh",
    ) -> None:
        super().__init__()
        assert skips != "full" or scale >= 1
        self.downsample, self.upsample, self.biased_downs = downsample, upsample, biased_downs
        self.skips = skips
        widths = [base_channels * 2**level for level in range(n_downsamplings + 1)]
        self.stem = make_stem(in_channels, base_channels, norm)
        if biased_downs:  # zeros, because a random bias would change the random weights of later layers
            self.stem.get_submodule("1").register_parameter("bias", nn.Parameter(torch.zeros(base_channels)))
            self.register_load_state_dict_pre_hook(_add_bias_of_stem)
        downs = (make_down(*channels, norm, downsample, bias=biased_downs) for channels in pairwise(widths))
        self.downs = nn.Sequential(*downs)
        self.blocks = nn.Sequential(*(ResidualBlock(widths[-1], norm=norm, dropout=dropout) for _ in range(n_blocks)))
        n_left_out = max(-n_doublings(scale), 0)
        rising = [*reversed(widths[n_left_out:]), *widths_beyond(base_channels, scale)]
        self.ups = nn.Sequential(*(make_up(wide, narrow, norm, upsample) for wide, narrow in pairwise(rising)))
        self.join = make_join(base_channels, norm) if skips == "full" else None
        self.head = nn.Identity() if output is None else make_head(rising[-1], out_channels, output)
        self.uniform = UniformToZeros() if norm == "instance" and output else nn.Identity()

    @staticmethod
    def image_sides(*, n_downsamplings: int, scale: float = 1.0) -> ImageSides:
        """Return the allowed sizes. Reflection padding needs 2 pixels at the lowest resolution and 4 at the head."""
        multiple = 2**n_downsamplings
        return ImageSides(multiple, minimum=max(2 * multiple, math.ceil(4 / scale)))

    @staticmethod
    def compared_layers(*, n_downsamplings: int, n_blocks: int) -> Sequence[str]:
        """Return the layers that CUT compares. With fewer than five blocks, the last block replaces the fifth."""
        downs = [f"downs.{level}.0" for level in range(min(n_downsamplings, 2))]
        blocks = dict.fromkeys(f"blocks.{min(block, n_blocks - 1)}" for block in (0, 4) if n_blocks)
        return ["stem.0", *downs, *blocks]

    @staticmethod
    def unsupported(*, skips: Skips, scale: float) -> Mapping[str, str]:
        """Reject skips=full if the output is smaller than the source."""
        return {"skips": "none or half with generator.scale below 1"} if skips == "full" and scale < 1 else {}

    @staticmethod
    def without_effect(*, n_blocks: int, n_downsamplings: int, scale: float, skips: Skips) -> Sequence[str]:
        """Return `dropout` if there are no blocks, and `skips` if no decoder level gets a skip connection."""
        has_no_skips = skips == "half" and (n_downsamplings < 2 or n_downsamplings + n_doublings(scale) < 1)
        return [*([] if n_blocks else ["dropout"]), *(["skips"] if has_no_skips else [])]

    def forward(self, source: Tensor) -> Tensor:
        """Translate (N, in_channels, H, W) into (N, out_channels, scale * H, scale * W), in [-1, 1] with tanh."""
        x, levels = self.stem(self.uniform(source)), []
        for number, down in enumerate(self.downs):
            if self._has_skip(number):
                levels.append(x)
            x = down(x)
        return self._decoded(self.blocks(x), levels)

    def _has_skip(self, number: int) -> bool:
        """Return whether a skip connection starts before downsampling `number`. Number 0 is at full resolution."""
        return self.skips == "full" or (self.skips == "half" and number > 0)

    def _decoded(self, x: Tensor, levels: Sequence[Tensor]) -> Tensor:
        """Decode features `x` at the lowest resolution. levels: Activations of skip connections, largest first."""
        for up in self.ups:
            x = up(x)
            if self.join and len(levels) == 1:
                x = self.join(torch.cat([x, levels[0]], dim=1))
            elif levels:
                x = x + levels[-1]
            levels = levels[:-1]
        return self.head(x)

    def features(self, source: Tensor, taps: Sequence[str]) -> list[Tensor]:
        """Return the outputs of the layers `taps`, in the network's order. Do not compute later layers.

        taps: Names of modules, such as `stem.0` or `blocks.4`. Norms are excluded: ReLU overwrites their output.

        Raises:
            KeyError: A layer is unknown or a norm.
        """
        return self._encoded(source, taps, stops=True)[1]

    def translate_with_features(self, source: Tensor, taps: Sequence[str]) -> tuple[Tensor, list[Tensor]]:
        """Return translation and features from one pass, without the layer `uniform`. Use only in training mode."""
        encoded, features, levels = self._encoded(source, taps, stops=False)
        return self._decoded(encoded, levels), features

    def _encoded(self, x: Tensor, taps: Sequence[str], *, stops: bool) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Return the encoder's output, the features, and skip activations. stops: Whether to stop at the last tap."""
        layers = {name: layer for name, layer in self.named_modules() if _TAPPED.fullmatch(name)}
        known = [name for name, layer in layers.items() if not isinstance(layer, nn.InstanceNorm2d | nn.BatchNorm2d)]
        if unknown := set(taps).difference(known):
            raise KeyError(f"no layer {min(unknown)}; there are {', '.join(known)}")
        features, levels = [], []
        for name, layer in layers.items():
            down = re.fullmatch(r"downs\.(\d+)\.0", name)
            if down and self._has_skip(int(down[1])):
                levels.append(x)
            x = layer(x)
            if name in taps:
                features.append(x)
                if stops and len(features) == len(taps):
                    break
        return x, features, levels


def _add_bias_of_stem(generator: nn.Module, weights: dict[str, Tensor], prefix: str, *_: object) -> None:
    """Add a zero bias for the stem to `weights` if they come from an earlier version, whose stem had no bias."""
    weights.setdefault(f"{prefix}stem.1.bias", torch.zeros_like(generator.get_parameter("stem.1.bias")))


class LocalEnhancer(Generator):
    """A global generator (the trunk) and enhancers that each double the resolution (Wang et al. 2018, section 3.1).

    At its resolution, each enhancer convolves and downsamples the source, and adds the features of the coarser level.
    Residual blocks and an upsampling follow. The trunk has 2**n_enhancers times as many channels as the finest level.
    """

    has_coarse_parts = True

    def __init__(
        self,
        *,
        in_channels: int,
        out_channels: int = 3,
        base_channels: int = 32,
        n_downsamplings: int = 4,
        n_blocks: int = 9,
        n_enhancers: int = 1,
        n_enhancer_blocks: int = 3,
        norm: Norm = "instance",
        upsample: Upsample = "transposed",
        output: Output = "tanh",
    ) -> None:
        super().__init__()
        self.trunk = GlobalGenerator(
            in_channels=in_channels,
            base_channels=base_channels * 2**n_enhancers,
            n_downsamplings=n_downsamplings,
            n_blocks=n_blocks,
            norm=norm,
            upsample=upsample,
            output=None,
        )
        self.enhancers = nn.ModuleList()
        for channels in (base_channels * 2**level for level in reversed(range(n_enhancers))):
            parts = {
                "stem": make_stem(in_channels, channels, norm),
                "down": make_down(channels, 2 * channels, norm),
                "blocks": nn.Sequential(*(ResidualBlock(2 * channels, norm=norm) for _ in range(n_enhancer_blocks))),
                "up": make_up(2 * channels, channels, norm, upsample),
            }
            self.enhancers.append(nn.ModuleDict(parts))
        self.head = make_head(base_channels, out_channels, output)
        self.uniform = UniformToZeros() if norm == "instance" else nn.Identity()

    @staticmethod
    def image_sides(*, n_downsamplings: int, n_enhancers: int) -> ImageSides:
        """Return the allowed sizes. Reflection padding needs two pixels at the lowest resolution."""
        multiple = 2 ** (n_downsamplings + n_enhancers)
        return ImageSides(multiple, minimum=2 * multiple)

    @staticmethod
    def unsupported(*, upsample: Upsample) -> Mapping[str, str]:
        """Reject CUT's antialiased upsampling, which only GlobalGenerator supports."""
        return {"upsample": "transposed, nearest, bilinear or residual"} if upsample == "antialiased" else {}

    @property
    def coarse_parts(self) -> Sequence[str]:
        """Name prefixes of all parameters, except the parameters of the finest enhancer and of the head."""
        return ["trunk", *(f"enhancers.{number}" for number in range(len(self.enhancers) - 1))]

    def forward(self, source: Tensor) -> Tensor:
        """Translate (N, in_channels, H, W) into (N, out_channels, H, W), in [-1, 1] with tanh."""
        pyramid = [self.uniform(source)]
        for _ in self.enhancers:
            pyramid.append(F.avg_pool2d(pyramid[-1], kernel_size=3, stride=2, padding=1, count_include_pad=False))
        features = self.trunk(pyramid.pop())
        for enhancer in self.enhancers:
            stem, down, blocks, up = enhancer.children()
            features = up(blocks(down(stem(pyramid.pop())) + features))
        return self.head(features)
