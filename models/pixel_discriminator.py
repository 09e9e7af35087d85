"""pix2pix's pixel discriminator."""

from torch import Tensor, nn

from models.blocks import Norm, make_norm
from models.pair_convolution import PairConv2d
from models.patch_discriminator import DiscriminatorOutput, discriminate


class PixelDiscriminator(nn.Module):
    """1x1 convolutions, which score the colour of each pixel by itself (Isola et al. 2017, section 6.1.2).

    As in pix2pix, the last convolution has a bias with instance norm and none with batch norm.
    """

    def __init__(
        self, *, source_channels: int, image_channels: int = 3, base_channels: int = 64, norm: Norm = "batch"
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [
                nn.Sequential(
                    PairConv2d(source_channels + image_channels, base_channels, kernel_size=1),
                    nn.LeakyReLU(0.2, inplace=True),
                ),
                nn.Sequential(
                    nn.Conv2d(base_channels, 2 * base_channels, kernel_size=1, bias=False),
                    make_norm(norm, 2 * base_channels),
                    nn.LeakyReLU(0.2, inplace=True),
                ),
            ]
        )
        self.head = nn.Conv2d(2 * base_channels, 1, kernel_size=1, bias=norm == "instance")

    def forward(self, source: Tensor, image: Tensor) -> list[DiscriminatorOutput]:
        """Score `image`, (k N, image_channels, H, W) in [-1, 1]: k translations of each `source`, (N, C, H, W).

        Returns the output of one scale, the full resolution.
        """
        return [discriminate(self.layers, self.head, source, image)]
