"""SPADE's generator, for label maps (Park et al. 2019)."""

from itertools import pairwise

from torch import Tensor, nn

from models.blocks import Norm, Output, last_activation
from models.condition_reduction import ConditionReduction
from models.image_sides import ImageSides
from models.noise_channels import NoiseChannels
from models.spade_block import SpadeBlock
from models.style_stem import StyleStem

_WIDEST = 5  # upsamplings from which on the width no longer grows


class SpadeGenerator(nn.Module):
    """A decoder of the condition, which enters at each resolution by way of the SPADE layers.

    A convolution of the condition at 2**-n_upsamplings of its sides, then SPADE blocks with upsamplings between them,
    up to base_channels at the full sides, then LeakyReLU, a convolution, tanh. Unlike the original's, the lowest
    resolution follows from the size of the source, so that any size that halves evenly can be translated.

    n_upsamplings: 5, 6 and 7 are SPADE's normal, more and most; 6 upsamples once more among the first blocks, 7 has
        a further block with half of base_channels. Fewer leave out the widest blocks.
    n_middle_blocks: blocks of the full width behind the first one; 2 in SPADE, 1 in OASIS, which then has one block at
        each resolution. With 1, n_upsamplings is at most 5.
    hidden_channels: width of the convolutions of the condition in the SPADE layers; 128 in SPADE.
    noise_channels: channels of noise before those of the source; 64 in OASIS, 0 in SPADE.
    n_image_channels: how many of in_channels are those of an image; the others are maps.
    n_label_channels: how many of in_channels, those of one-hot labels, come before the image.
    style_channels: channels of the style of an image, which then is the decoder's input in place of a convolution of
        the condition; 256 in SPADE, 0 without.
    style_height, style_width: sides of the map that is made of the style; see StyleStem.
    output: tanh, or linear for values without bounds.
    """

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
        self.base_channels = base_channels
        self.n_upsamplings = n_upsamplings
        self.n_middle_blocks = n_middle_blocks
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
            nn.LeakyReLU(0.2),
            nn.Conv2d(widths[-1], out_channels, kernel_size=3, padding=1),
            *last_activation(output),
        )

    @staticmethod
    def image_sides(*, n_upsamplings: int) -> ImageSides:
        """Return the sides that the generator takes; the norms at the lowest resolution need a second pixel."""
        multiple = 2**n_upsamplings
        return ImageSides(multiple, minimum=2 * multiple)

    def forward(self, source: Tensor, style: Tensor | None = None) -> Tensor:
        """Translate (N, in_channels, H, W) into (N, out_channels, H, W); `image_sides` bounds H and W.

        The output is in [-1, 1], unless it is linear.

        style: (N, style_channels), of a generator with a style; None: that of the latest choose_styles.
        """
        condition = self.noise(source)
        reduced = [reduction(condition) for reduction in self.reductions]
        x = self.stem(reduced[-1], style) if isinstance(self.stem, StyleStem) else self.stem(reduced[-1])
        before = len(reduced) - 1
        for block, level in zip(self.blocks, self.levels, strict=True):
            if level != before:
                x = self.up(x)
            x = block(x, reduced[level])
            before = level
        return self.head(x)

    def normed_convolutions(self) -> list[nn.Conv2d]:
        """Return the convolutions that spectral norm takes in SPADE: those of the blocks."""
        return [part for block in self.blocks if isinstance(block, SpadeBlock) for part in block.normed_convolutions()]


def _widths(base_channels: int, n_upsamplings: int, n_middle_blocks: int) -> list[int]:
    """Return the output channels of each block."""
    n_halvings = min(n_upsamplings, _WIDEST) - 1
    falling = [base_channels * 2**level for level in reversed(range(n_halvings))]
    half = [base_channels // 2] if n_upsamplings > _WIDEST + 1 else []
    return [base_channels * 2**n_halvings] * (1 + n_middle_blocks) + falling + half


def _levels(n_upsamplings: int, n_middle_blocks: int) -> list[int]:
    """Return how often the sides of each block's input are to be doubled."""
    if n_middle_blocks == 1:
        return list(reversed(range(n_upsamplings + 1)))
    middle = [n_upsamplings, n_upsamplings - 1, n_upsamplings - (2 if n_upsamplings > _WIDEST else 1)]
    return [*middle, *reversed(range(middle[-1]))]
