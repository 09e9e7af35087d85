"""pix2pixHD's global generator, which with 2 downsamplings is pix2pix's ResNet generator."""

from itertools import pairwise

from torch import Tensor, nn

from models.blocks import Norm, Padding, ResidualBlock, Upsample, make_down, make_head, make_stem, make_up
from models.image_sides import ImageSides


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
    ) -> None:
        super().__init__()
        widths = [base_channels * 2**level for level in range(n_downsamplings + 1)]
        self.stem = make_stem(in_channels, base_channels, norm)
        self.downs = nn.Sequential(*(make_down(narrow, wide, norm, padding) for narrow, wide in pairwise(widths)))
        self.blocks = nn.Sequential(*(ResidualBlock(widths[-1], norm=norm, dropout=dropout) for _ in range(n_blocks)))
        self.ups = nn.Sequential(
            *(make_up(wide, narrow, norm, upsample) for wide, narrow in pairwise(reversed(widths)))
        )

    def forward(self, source: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, base_channels, H, W)."""
        return self.ups(self.blocks(self.downs(self.stem(source))))


class GlobalGenerator(GlobalTrunk):
    """Encoder, residual blocks, decoder (Wang et al. 2018, section 3.1; Johnson et al. 2016).

    A 7x7 stem, `n_downsamplings` strided convolutions that double the channels, `n_blocks` residual blocks,
    `n_downsamplings` upsamplings, a 7x7 head with tanh. Convolutions before a norm have no bias, since the norm
    subtracts the mean. pix2pix's ResNet generator has 2 downsamplings, 6 or 9 blocks, and dropout.
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
        )
        self.head = make_head(base_channels, out_channels)

    @staticmethod
    def image_sides(*, n_downsamplings: int) -> ImageSides:
        """Return the sides that the generator takes; reflection at the lowest resolution needs a second pixel."""
        multiple = 2**n_downsamplings
        return ImageSides(multiple, minimum=2 * multiple)

    def forward(self, source: Tensor) -> Tensor:
        """Translate (N, in_channels, H, W) into (N, out_channels, H, W) in [-1, 1]; `image_sides` bounds H and W."""
        return self.head(super().forward(source))
