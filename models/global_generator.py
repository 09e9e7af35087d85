"""pix2pixHD's global generator."""

from itertools import pairwise

from torch import Tensor, nn

from models.blocks import Norm, ResidualBlock, make_norm


class GlobalGenerator(nn.Module):
    """Encoder, residual blocks, decoder (Wang et al. 2018, section 3.1; Johnson et al. 2016).

    A 7x7 stem, `n_downsamplings` strided convolutions that double the channels, `n_blocks` residual blocks, as many
    transposed convolutions, a 7x7 head with tanh. No convolution before a norm has a bias: the norm takes the mean
    away.
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
    ) -> None:
        super().__init__()
        widths = [base_channels * 2**level for level in range(n_downsamplings + 1)]
        self.stem = nn.Sequential(
            nn.ReflectionPad2d(3),
            nn.Conv2d(in_channels, base_channels, kernel_size=7, bias=False),
            make_norm(norm, base_channels),
            nn.ReLU(inplace=True),
        )
        self.downs = nn.Sequential(*(_down(narrow, wide, norm) for narrow, wide in pairwise(widths)))
        self.blocks = nn.Sequential(*(ResidualBlock(widths[-1], norm=norm) for _ in range(n_blocks)))
        self.ups = nn.Sequential(*(_up(wide, narrow, norm) for wide, narrow in pairwise(reversed(widths))))
        self.head = nn.Sequential(
            nn.ReflectionPad2d(3), nn.Conv2d(base_channels, out_channels, kernel_size=7), nn.Tanh()
        )

    def forward(self, source: Tensor) -> Tensor:
        """Translate (N, in_channels, H, W) into (N, out_channels, H, W) in [-1, 1].

        H and W are multiples of 2**n_downsamplings, and at least twice that.
        """
        return self.head(self.ups(self.blocks(self.downs(self.stem(source)))))


def _down(in_channels: int, out_channels: int, norm: Norm) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=2, padding=1, bias=False),
        make_norm(norm, out_channels),
        nn.ReLU(inplace=True),
    )


def _up(in_channels: int, out_channels: int, norm: Norm) -> nn.Sequential:
    return nn.Sequential(
        nn.ConvTranspose2d(in_channels, out_channels, kernel_size=3, stride=2, padding=1, output_padding=1, bias=False),
        make_norm(norm, out_channels),
        nn.ReLU(inplace=True),
    )
