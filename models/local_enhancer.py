"""pix2pixHD's coarse-to-fine generator, a global generator with local enhancers."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from models.blocks import Norm, Output, Padding, ResidualBlock, Upsample, make_down, make_head, make_stem, make_up
from models.generator import Generator, ImageSides
from models.global_generator import GlobalTrunk
from models.layers import UniformToZeros


class EnhancerLevel(nn.Module):
    """One enhancer: adds the downsampled source to the coarser level's features, then residual blocks, upsampling."""

    def __init__(
        self,
        *,
        in_channels: int,
        channels: int,
        n_blocks: int,
        norm: Norm,
        upsample: Upsample,
        padding: Padding,
    ) -> None:
        super().__init__()
        self.stem = make_stem(in_channels, channels, norm)
        self.down = make_down(channels, 2 * channels, norm, padding)
        self.blocks = nn.Sequential(*(ResidualBlock(2 * channels, norm=norm) for _ in range(n_blocks)))
        self.up = make_up(2 * channels, channels, norm, upsample)

    def forward(self, source: Tensor, coarse: Tensor) -> Tensor:
        """Map a source (N, in_channels, H, W) and coarse features (N, 2 C, H/2, W/2) to features (N, C, H, W)."""
        return self.up(self.blocks(self.down(self.stem(source)) + coarse))


class LocalEnhancer(Generator):
    """A global generator at the lowest resolution, and enhancers that each double it (Wang et al. 2018, section 3.1).

    base_channels: width of the finest level; the trunk has 2**n_enhancers times as many.
    output: tanh, or linear for values without bounds.
    """

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
        padding: Padding = "zeros",
        output: Output = "tanh",
    ) -> None:
        super().__init__()
        self.trunk = GlobalTrunk(
            in_channels=in_channels,
            base_channels=base_channels * 2**n_enhancers,
            n_downsamplings=n_downsamplings,
            n_blocks=n_blocks,
            norm=norm,
            upsample=upsample,
            padding=padding,
        )
        self.enhancers = nn.ModuleList(
            EnhancerLevel(
                in_channels=in_channels,
                channels=base_channels * 2**level,
                n_blocks=n_enhancer_blocks,
                norm=norm,
                upsample=upsample,
                padding=padding,
            )
            for level in reversed(range(n_enhancers))
        )
        self.head = make_head(base_channels, out_channels, output)
        self.uniform = UniformToZeros() if norm == "instance" else nn.Identity()

    @staticmethod
    def image_sides(*, n_downsamplings: int, n_enhancers: int) -> ImageSides:
        """Return the sides that the generator takes; reflection at the lowest resolution needs a second pixel."""
        multiple = 2 ** (n_downsamplings + n_enhancers)
        return ImageSides(multiple, minimum=2 * multiple)

    @property
    def coarse_parts(self) -> Sequence[str]:
        """Prefixes of the names of the parameters below the finest enhancer."""
        return ["trunk", *(f"enhancers.{number}" for number in range(len(self.enhancers) - 1))]

    def forward(self, source: Tensor) -> Tensor:
        """Translate (N, in_channels, H, W) into (N, out_channels, H, W); `image_sides` bounds H and W.

        The output is in [-1, 1], unless it is linear.
        """
        pyramid = [self.uniform(source)]
        for _ in self.enhancers:
            pyramid.append(F.avg_pool2d(pyramid[-1], kernel_size=3, stride=2, padding=1, count_include_pad=False))
        features = self.trunk(pyramid.pop())
        for enhancer in self.enhancers:
            features = enhancer(pyramid.pop(), features)
        return self.head(features)
