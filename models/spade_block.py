"""SPADE's residual block."""

import torch.nn.functional as F
from torch import Tensor, nn

from models.activation_checkpointing import Recomputable
from models.blocks import Norm
from models.spade_layer import SpadeLayer


class SpadeBlock(Recomputable):
    """shortcut(x) + conv(LeakyReLU(spade(conv(LeakyReLU(spade(x)))))), figure 4 of Park et al. 2019.

    The convolutions have min(in_channels, out_channels) channels between them. Where the numbers of channels differ,
    the shortcut is a 1x1 convolution behind a SPADE layer without activation. Nothing follows the sum. The first
    convolution has no bias, unlike SPADE's: the norm behind it subtracts it.
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
        """Map x (N, in_channels, H, W) to (N, out_channels, H, W) by a condition (N, condition_channels, H, W)."""
        return self.stored_or_recomputed(self._compute, x, condition)

    def _compute(self, x: Tensor, condition: Tensor) -> Tensor:
        inner = self.conv1(F.leaky_relu(self.norm1(x, condition), 0.2))
        inner = self.conv2(F.leaky_relu(self.norm2(inner, condition), 0.2))
        kept = self.shortcut(self.shortcut_norm(x, condition)) if self.has_shortcut else x
        return kept + inner

    def normed_convolutions(self) -> list[nn.Conv2d]:
        """Return the convolutions that spectral norm takes in SPADE: all but those of the SPADE layers."""
        return [self.conv1, self.conv2, *([self.shortcut] if self.has_shortcut else [])]
