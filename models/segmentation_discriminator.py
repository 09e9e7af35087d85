"""OASIS's discriminator, which segments images (Schönfeld et al. 2021, section 3.1)."""

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.layers import UpsampledConv2d
from models.patch_discriminator import Discriminator, DiscriminatorOutput


class SegmentationDiscriminator(Discriminator):
    """A U-Net that classifies each pixel of an image as translated, or as one of the classes of real images.

    n_classes: Number of classes of the label maps.
    base_channels: Channels of the last up block. The first two down blocks have 2 * base_channels. Every second down
        block doubles the channels, up to max_channels.
    """

    n_outputs = 1
    classifies_pixels = True
    keeps_normed_weights = False  # OASIS initializes the weights before it adds spectral norm

    def __init__(
        self,
        *,
        n_classes: int,
        image_channels: int = 3,
        base_channels: int = 64,
        max_channels: int = 512,
        n_downsamplings: int = 6,
    ) -> None:
        super().__init__()
        widths = [min(base_channels * 2 ** (level // 2), max_channels) for level in range(2, n_downsamplings + 2)]
        self.unet = SegmentationUnet([image_channels, *widths], min(base_channels, max_channels), n_classes + 1)

    @staticmethod
    def least_side(*, n_downsamplings: int) -> int:
        """Return the smallest height and width that leave one pixel at the lowest resolution."""
        return int(2**n_downsamplings)

    def forward(self, source: Tensor, image: Tensor) -> list[DiscriminatorOutput]:
        """Return one output: the logits of `image`, (k N, 1 + n_classes, H, W), and no features.

        Channel 0 is the logit for translated images. `image` is (k N, image_channels, H, W). `source` is ignored.
        """
        return [DiscriminatorOutput([], self.unet(image))]


class SegmentationUnet(nn.Module):
    """A U-Net of residual blocks: down blocks, the same number of up blocks, and a 1x1 convolution for logits.

    Each up block but the first also takes the output of the down block with the same resolution (a skip connection).

    widths: Channels of the image, then of each down block's output. last_width: Channels of the last up block.
    """

    def __init__(self, widths: Sequence[int], last_width: int, n_logits: int) -> None:
        super().__init__()
        self.downs = nn.ModuleList(
            DownBlock(before, after, is_first=level == 0) for level, (before, after) in enumerate(pairwise(widths))
        )
        rising = [*reversed(widths[1:-1]), last_width]
        # the first up block has no skip connection
        inputs = [widths[-1], *(2 * width for width in rising[:-1])]
        self.ups = nn.ModuleList(UpBlock(wide, narrow) for wide, narrow in zip(inputs, rising, strict=True))
        self.head = nn.Conv2d(last_width, n_logits, kernel_size=1)

    def forward(self, image: Tensor) -> Tensor:
        """Map (N, C, H, W) to logits (N, n_logits, H, W)."""
        stages = [image]
        for down in self.downs:
            stages.append(down(stages[-1]))
        x = stages.pop()
        for up in self.ups:
            skip = stages.pop()
            x = up(x, skip.shape[2:])
            if stages:
                x = torch.cat([skip, x], dim=1)
        return self.head(x)


class DownBlock(nn.Module):
    """Residual block pool(conv(LeakyReLU(conv(LeakyReLU(x))))) + shortcut(pool(x)).

    The first block does not apply LeakyReLU to x. The shortcut is a 1x1 convolution if the numbers of channels differ.
    """

    def __init__(self, in_channels: int, out_channels: int, *, is_first: bool) -> None:
        super().__init__()
        self.before = nn.Identity() if is_first else nn.LeakyReLU(0.2)
        self.conv1 = _conv3(in_channels, out_channels)
        self.conv2 = _conv3(out_channels, out_channels)
        self.shortcut = _shortcut(in_channels, out_channels)
        self.pool = nn.AvgPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, H // 2, W // 2)."""
        inner = self.conv2(F.leaky_relu(self.conv1(self.before(x)), 0.2))
        return self.pool(inner) + self.shortcut(self.pool(x))  # equals pool(shortcut(x)), and is faster


class UpBlock(nn.Module):
    """Residual block conv(LeakyReLU(conv(up(LeakyReLU(x))))) + up(shortcut(x)). `up` repeats each pixel 2x2 times.

    The shortcut is a 1x1 convolution if the numbers of channels differ.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv1 = UpsampledConv2d(in_channels, out_channels, border="zeros", bias=True)
        self.conv2 = _conv3(out_channels, out_channels)
        self.shortcut = _shortcut(in_channels, out_channels)

    def forward(self, x: Tensor, sides: Sequence[int]) -> Tensor:
        """Map (N, in_channels, h, w) to (N, out_channels, *sides). Each side is doubled, or doubled plus 1."""
        height, width = sides
        if height % 2 or width % 2:
            x = F.pad(x, (0, width % 2, 0, height % 2), mode="replicate")
        inner = self.conv1(F.leaky_relu(x, 0.2))[:, :, :height, :width]
        inner = self.conv2(F.leaky_relu(inner, 0.2))
        return inner + F.interpolate(self.shortcut(x), scale_factor=2, mode="nearest")[:, :, :height, :width]


def _conv3(in_channels: int, out_channels: int) -> nn.Conv2d:
    return nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)


def _shortcut(in_channels: int, out_channels: int) -> nn.Module:
    return nn.Conv2d(in_channels, out_channels, kernel_size=1) if in_channels != out_channels else nn.Identity()
