"""A discriminator on the features of a pretrained network (Sauer et al. 2021, "Projected GANs Converge Faster")."""

from collections.abc import Callable
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.layers import Float32Buffers, PairConv2d
from models.patch_discriminator import Discriminator, DiscriminatorOutput, discriminate
from utils.efficientnet_lite import LEAST_SIDE, LITE0, efficientnet_lite, enlarged

_MIXED, _EMBEDDED, _WIDTH = 64, 16, 96  # channels of the mixed features, of the embedded source and of the layers


class Tap(NamedTuple):
    """A part of EfficientNet-Lite0 whose output is judged."""

    part: int  # index of the part
    channels: int  # channels of the output
    scale: float  # approximate root mean square of the output for photographs
    kernel: int  # size and stride of the first convolution that judges the output
    stride: int


# the outputs have a quarter, an eighth, a 16th and a 32nd of the enlarged image's height and width
TAPS = (Tap(2, 24, 12.0, 4, 2), Tap(3, 40, 10.0, 4, 2), Tap(5, 112, 7.5, 3, 1), Tap(7, 320, 3.0, 3, 1))


class Projection(Float32Buffers):
    """Computes features of a frozen EfficientNet-Lite0, and mixes them with random projections.

    All images are enlarged 1.75 times. Otherwise, translations get a grid pattern with the period of the network's
    strides, four pixels. The authors' code enlarges only images with sides below 224 pixels.

    Frozen random 1x1 convolutions mix the channels. The upsampled mixture of each depth is added to the next shallower
    depth, and a frozen random 3x3 convolution follows (section 3.2 of the paper).
    """

    def __init__(self) -> None:
        super().__init__()
        # the list hides the network from checkpoints and optimizers
        self._pretrained = [efficientnet_lite(LITE0)[: TAPS[-1].part + 1]]
        draw = torch.Generator().manual_seed(0)  # all runs have the same projections
        for number, tap in enumerate(TAPS):
            of_channels = torch.randn(_MIXED, tap.channels, 1, 1, generator=draw, device="cpu")
            of_depths = torch.randn(_MIXED, _MIXED, 3, 3, generator=draw, device="cpu")
            self.register_buffer(f"channels_{number}", of_channels / tap.channels**0.5 / tap.scale)
            self.register_buffer(f"depths_{number}", of_depths / (9 * _MIXED) ** 0.5)

    def forward(self, image: Tensor) -> list[Tensor]:
        """Return the mixed features of each depth, (N, _MIXED, h, w), computed in float32, in the dtype of `image`."""
        features, mixed = [], list[Tensor]()
        with torch.autocast(image.device.type, enabled=False):
            x = enlarged(image)
            for part in self._pretrained[0]:
                x = part(x)
                features.append(x)
            for number, tap in reversed([*enumerate(TAPS)]):
                x = F.conv2d(features[tap.part], self.get_buffer(f"channels_{number}"))
                if mixed:
                    x = (x + F.interpolate(mixed[0], size=x.shape[2:], mode="bilinear")) / 2**0.5
                mixed.insert(0, F.conv2d(x, self.get_buffer(f"depths_{number}"), padding=1))
        return [x.to(image.dtype) for x in mixed]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move the pretrained network with the projections."""
        super()._apply(fn, recurse)
        self._pretrained[0].to(self.get_buffer("depths_0").device)
        return self


class ProjectedDiscriminator(Discriminator):
    """One small discriminator for each of four depths of `Projection`.

    For pairs, unlike in the paper, each discriminator also sees a learned embedding of the source.

    source_channels: Channels of the source; 0 if the discriminator sees only the image, as in CycleGAN and CUT.

    Raises:
        WeightsError: The package with the weights of EfficientNet-Lite0 is not installed.
    """

    channels = (1, 3)
    n_outputs = len(TAPS)

    def __init__(self, *, source_channels: int) -> None:
        super().__init__()
        self.source_channels = source_channels
        self.projection = Projection()
        self.heads, n_embedded = nn.ModuleList(), _EMBEDDED if source_channels else 0
        for tap in TAPS:
            first = PairConv2d(_MIXED + n_embedded, _WIDTH, tap.kernel, tap.stride, padding=1)
            second = nn.Conv2d(_WIDTH, _WIDTH, kernel_size=3, padding=1)
            layers = nn.ModuleList(nn.Sequential(layer, nn.LeakyReLU(0.2, inplace=True)) for layer in (first, second))
            parts = {"layers": layers, "head": nn.Conv2d(_WIDTH, 1, kernel_size=3, padding=1)}
            if source_channels:
                parts["embedding"] = nn.Conv2d(source_channels, n_embedded, kernel_size=3, padding=1)
            self.heads.append(nn.ModuleDict(parts))

    @staticmethod
    def least_side() -> int:
        """Return 19 pixels."""
        return LEAST_SIDE

    def forward(self, source: Tensor, image: Tensor) -> list[DiscriminatorOutput]:
        """Return the output for each depth, shallowest first.

        source: (N, C, H, W). image: k images for each source, (k N, 1 or 3, H, W) in [-1, 1].
        """
        outputs = []
        for head, features in zip(self.heads, self.projection(image), strict=True):
            assert isinstance(head, nn.ModuleDict)
            seen = None
            if self.source_channels:
                seen = head["embedding"](F.adaptive_avg_pool2d(source, features.shape[2:]))
            outputs.append(discriminate(head, seen, features))
        return outputs
