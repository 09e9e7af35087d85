"""The parts that networks are made of."""

from typing import Literal

from torch import Tensor, nn

Norm = Literal["instance", "batch"]


def make_norm(norm: Norm, channels: int) -> nn.Module:
    """Normalisation layer of the originals: instance norm has no parameters and no running statistics."""
    match norm:
        case "instance":
            return nn.InstanceNorm2d(channels)
        case "batch":
            return nn.BatchNorm2d(channels)


class ResidualBlock(nn.Module):
    """x + norm(conv(ReLU(norm(conv(x))))), reflection padded, with no ReLU after the sum (pix2pixHD)."""

    def __init__(self, channels: int, *, norm: Norm) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, kernel_size=3, bias=False),
            make_norm(norm, channels),
            nn.ReLU(inplace=True),
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, kernel_size=3, bias=False),
            make_norm(norm, channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, H, W); H and W of at least 2."""
        return x + self.body(x)
