"""Spatially-adaptive normalisation (Park et al. 2019, "Semantic image synthesis with SPADE")."""

from torch import Tensor, nn

from models.blocks import Norm
from models.instance_norm import InstanceNorm


class SpadeLayer(nn.Module):
    """norm(x) * (1 + scale) + shift, with a scale and a shift of each pixel that two convolutions make of a condition.

    The norm has no parameters (equation 1). Condition -> convolution, ReLU -> one convolution for the scale, one for
    the shift; zeros around each.

    hidden_channels: channels of the first convolution; 128 in SPADE.
    kernel_size: odd, of the three convolutions.
    """

    def __init__(
        self, channels: int, condition_channels: int, *, hidden_channels: int = 128, norm: Norm, kernel_size: int = 3
    ) -> None:
        super().__init__()
        self.norm = InstanceNorm(channels) if norm == "instance" else nn.BatchNorm2d(channels, affine=False)
        padding = kernel_size // 2
        self.shared = nn.Sequential(
            nn.Conv2d(condition_channels, hidden_channels, kernel_size, padding=padding), nn.ReLU(inplace=True)
        )
        self.scale = nn.Conv2d(hidden_channels, channels, kernel_size, padding=padding)
        self.shift = nn.Conv2d(hidden_channels, channels, kernel_size, padding=padding)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Normalise x (N, channels, H, W) by a condition (N, condition_channels, H, W)."""
        hidden = self.shared(condition)
        return self.norm(x) * (1 + self.scale(hidden)) + self.shift(hidden)
