"""SPADE's generator, for label maps (Park et al. 2019, "Semantic image synthesis with SPADE")."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.activation_checkpointing import Recomputable
from models.blocks import Norm, Output, last_activation
from models.generator import Generator, ImageSides
from models.latent_inputs import NoiseChannels, StyleStem
from models.layers import InstanceNorm, InTiles


class SpadeLayer(nn.Module):
    """The SPADE norm: norm(x) * (1 + scale) + shift, with a scale and a shift for each pixel (equation 1).

    A convolution and a ReLU are applied to the condition. From their output, one convolution computes the scale, and
    another convolution computes the shift. The inner norm has no parameters.
    """

    def __init__(self, channels: int, condition_channels: int, *, hidden_channels: int, norm: Norm) -> None:
        super().__init__()
        self.norm = InstanceNorm(channels) if norm == "instance" else nn.BatchNorm2d(channels, affine=False)
        self.shared = nn.Sequential(nn.Conv2d(condition_channels, hidden_channels, 3, padding=1), nn.ReLU(inplace=True))
        self.scale = nn.Conv2d(hidden_channels, channels, kernel_size=3, padding=1)
        self.shift = nn.Conv2d(hidden_channels, channels, kernel_size=3, padding=1)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Normalise x (N, channels, H, W), then scale and shift it. condition: (N, condition_channels, H, W)."""
        hidden = self.shared(condition)
        return self.norm(x) * (1 + self.scale(hidden)) + self.shift(hidden)


class ConditionReduction(nn.Module):
    """Layer that divides height and width of a condition by `factor`.

    Image channels are averaged. Other channels keep the first pixel of each square, as in SPADE: labels stay one-hot.

    n_noise_channels: Number of all channels before the image: noise, then labels. n_image_channels: Image channels.
    """

    def __init__(self, factor: int, *, n_noise_channels: int = 0, n_image_channels: int = 0) -> None:
        super().__init__()
        self.factor = factor
        self.in_tiles = InTiles(stride=Fraction(factor), extent="every_segment")
        self.takes_image = n_image_channels > 0
        self._image = slice(n_noise_channels, n_noise_channels + n_image_channels)

    def forward(self, condition: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, C, H / factor, W / factor); H and W are multiples of the factor."""
        if self.factor == 1:
            return condition
        nearest = condition[:, :, :: self.factor, :: self.factor]
        if not self.takes_image:
            return nearest
        image = F.avg_pool2d(condition[:, self._image], self.factor)
        return torch.cat([nearest[:, : self._image.start], image, nearest[:, self._image.stop :]], dim=1)

    def extra_repr(self) -> str:
        """Return the attributes of the layer as text."""
        return f"factor={self.factor}, takes_image={self.takes_image}"


class SpadeBlock(Recomputable):
    """Residual block shortcut(x) + conv(LeakyReLU(spade(conv(LeakyReLU(spade(x)))))), figure 4 of Park et al. 2019.

    The first convolution has min(in_channels, out_channels) output channels. Unlike in SPADE, it has no bias, because
    the next norm would cancel the bias. If the block changes the number of channels, the shortcut is a SPADE layer and
    a 1x1 convolution.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        condition_channels: int,
        *,
        hidden_channels: int = 128,
        norm: Norm = "instance",
    ) -> None:
        super().__init__()

        def spade(channels: int) -> SpadeLayer:
            return SpadeLayer(channels, condition_channels, hidden_channels=hidden_channels, norm=norm)

        middle = min(in_channels, out_channels)
        self.norm1 = spade(in_channels)
        self.conv1 = nn.Conv2d(in_channels, middle, kernel_size=3, padding=1, bias=False)
        self.norm2 = spade(middle)
        self.conv2 = nn.Conv2d(middle, out_channels, kernel_size=3, padding=1)
        self.has_shortcut = in_channels != out_channels
        if self.has_shortcut:
            self.shortcut_norm = spade(in_channels)
            self.shortcut = nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=False)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Map x (N, in_channels, H, W) to (N, out_channels, H, W) with a condition (N, condition_channels, H, W)."""
        return self.stored_or_recomputed(self._compute, x, condition)

    def _compute(self, x: Tensor, condition: Tensor) -> Tensor:
        inner = self.conv1(F.leaky_relu(self.norm1(x, condition), 0.2))
        inner = self.conv2(F.leaky_relu(self.norm2(inner, condition), 0.2))
        kept = self.shortcut(self.shortcut_norm(x, condition)) if self.has_shortcut else x
        return kept + inner

    def normed_convolutions(self) -> list[nn.Conv2d]:
        """Return the convolutions that have spectral norm in SPADE. SPADE layers have no spectral norm."""
        return [self.conv1, self.conv2, *([self.shortcut] if self.has_shortcut else [])]


_USUAL_UPSAMPLINGS = 5  # more upsamplings do not add wider blocks


class SpadeGenerator(Generator):
    """A decoder whose SPADE layers receive the condition at each resolution.

    The condition is downsampled by 2**n_upsamplings, and the first layer convolves it. SPADE blocks follow, with
    upsamplings between them. Their widths fall to base_channels. LeakyReLU, a convolution and tanh come last. Unlike in
    the original, the lowest resolution depends on the size of the source.

    n_upsamplings: SPADE calls 5, 6 and 7 `normal`, `more` and `most`. 6 adds an upsampling between the middle blocks.
        7 also adds a last block with base_channels / 2 channels. Fewer than 5 leave out the widest blocks.
    n_middle_blocks: Number of equally wide blocks after the first block; 2 in SPADE, 1 in OASIS (one per resolution).
    hidden_channels: Channels of the hidden layer that computes scales and shifts; 128 in SPADE.
    noise_channels: Noise channels, which are added before the source's channels; 64 in OASIS, 0 in SPADE.
    n_label_channels, n_image_channels: Channels of one-hot labels and of an image in the source, in this order.
    style_channels: Channels of a style; 256 in SPADE. The first layer gets it instead of the condition. 0: no style.
    style_height, style_width: Height and width of the style's feature maps, in pixels. See StyleStem.
    """

    translates = "label maps"
    keeps_normed_weights = True

    def __init__(
        self,
        *,
        in_channels: int,
        out_channels: int = 3,
        base_channels: int = 64,
        n_upsamplings: int = 5,
        n_middle_blocks: int = 2,
        hidden_channels: int = 128,
        noise_channels: int = 0,
        n_image_channels: int = 0,
        n_label_channels: int = 0,
        style_channels: int = 0,
        style_height: int = 8,
        style_width: int = 8,
        norm: Norm = "instance",
        output: Output = "tanh",
    ) -> None:
        super().__init__()
        self.n_upsamplings = n_upsamplings
        self.n_middle_blocks = n_middle_blocks
        self.noise_channels = noise_channels
        self.hidden_channels = hidden_channels
        widths = _widths(base_channels, n_upsamplings, n_middle_blocks)
        condition_channels = in_channels + noise_channels
        self.noise = NoiseChannels(noise_channels)
        before_image = noise_channels + n_label_channels
        self.reductions = nn.ModuleList(
            ConditionReduction(2**level, n_noise_channels=before_image, n_image_channels=n_image_channels)
            for level in range(n_upsamplings + 1)
        )
        self.stem: nn.Conv2d | StyleStem = (
            StyleStem(style_channels, widths[0], height=style_height, width=style_width)
            if style_channels
            else nn.Conv2d(condition_channels, widths[0], kernel_size=3, padding=1)
        )
        self.blocks = nn.ModuleList(
            SpadeBlock(wide, narrow, condition_channels, hidden_channels=hidden_channels, norm=norm)
            for wide, narrow in pairwise([widths[0], *widths])
        )
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.levels = _levels(n_upsamplings, n_middle_blocks)
        self.head = nn.Sequential(
            nn.LeakyReLU(0.2), nn.Conv2d(widths[-1], out_channels, kernel_size=3, padding=1), *last_activation(output)
        )

    @staticmethod
    def image_sides(*, n_upsamplings: int) -> ImageSides:
        """Return the allowed image sizes. Norms need two pixels at the lowest resolution."""
        multiple = 2**n_upsamplings
        return ImageSides(multiple, minimum=2 * multiple)

    @staticmethod
    def unsupported(*, n_upsamplings: int, n_middle_blocks: int, base_channels: int) -> Mapping[str, str]:
        """Reject more upsamplings than OASIS has, and an odd base_channels that must be halved."""
        if n_middle_blocks == 1 and n_upsamplings > _USUAL_UPSAMPLINGS:
            return {"n_upsamplings": f"at most {_USUAL_UPSAMPLINGS} with generator.n_middle_blocks=1"}
        if n_upsamplings > _USUAL_UPSAMPLINGS + 1 and base_channels % 2:
            return {"base_channels": f"an even number with generator.n_upsamplings={n_upsamplings}"}
        return {}

    def forward(self, source: Tensor, style: Tensor | None = None) -> Tensor:
        """Translate (N, in_channels, H, W) into (N, out_channels, H, W), in [-1, 1] with tanh.

        style: (N, style_channels). None: use `StyleStem.drawn`, if the generator has a style.
        """
        condition = self.noise(source)
        reduced = [reduction(condition) for reduction in self.reductions]
        x = self.stem(reduced[-1], style) if isinstance(self.stem, StyleStem) else self.stem(reduced[-1])
        for block, (before, level) in zip(self.blocks, pairwise([self.n_upsamplings, *self.levels]), strict=True):
            if level != before:
                x = self.up(x)
            x = block(x, reduced[level])
        return self.head(x)


def _widths(base_channels: int, n_upsamplings: int, n_middle_blocks: int) -> list[int]:
    """Return the output channels of each block."""
    n_halvings = min(n_upsamplings, _USUAL_UPSAMPLINGS) - 1
    falling = [base_channels * 2**level for level in reversed(range(n_halvings))]
    half = [base_channels // 2] if n_upsamplings > _USUAL_UPSAMPLINGS + 1 else []
    return [base_channels * 2**n_halvings] * (1 + n_middle_blocks) + falling + half


def _levels(n_upsamplings: int, n_middle_blocks: int) -> list[int]:
    """Return the level of each block. At level l, height and width are 2**-l of the full size."""
    if n_middle_blocks == 1:
        return list(reversed(range(n_upsamplings + 1)))
    middle = [n_upsamplings, n_upsamplings - 1, n_upsamplings - (2 if n_upsamplings > _USUAL_UPSAMPLINGS else 1)]
    return [*middle, *reversed(range(middle[-1]))]
