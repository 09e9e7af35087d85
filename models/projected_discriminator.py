"""A discriminator on the features of a pretrained network (Sauer et al. 2021, "Projected GANs Converge Faster")."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.layers import PairConv2d
from models.patch_discriminator import Discriminator, DiscriminatorOutput, discriminate
from utils.efficientnet_lite import LITE0, efficientnet_lite

_MIXED, _EMBEDDED, _WIDTH = 64, 16, 96  # channels of the mixed features, of the embedded source and of the layers


class Tap(NamedTuple):
    """A part of EfficientNet-Lite0 whose output is judged.

    part: Index of the part. channels: Its output channels. scale: Root mean square of its output for photographs.
    stride: Stride of the first convolution that judges the output.
    """

    part: int
    channels: int
    scale: float
    stride: int


# the outputs have a quarter, an eighth, a 16th and a 32nd of the image's height and width
TAPS = (Tap(2, 24, 12.0, 2), Tap(3, 40, 10.0, 2), Tap(5, 112, 7.5, 1), Tap(7, 320, 3.0, 1))


class ProjectedDiscriminator(Discriminator):
    """One small discriminator for each of four depths of a frozen EfficientNet-Lite0.

    Frozen random convolutions mix the channels of the features, and add each depth to the next shallower depth
    (section 3.2). Unlike in the paper, the discriminators also see the source.

    source_channels: Channels of the source; 0 if the discriminator sees only the image, as in CycleGAN and CUT.

    Raises:
        WeightsError: The package with the weights of EfficientNet-Lite0 is not installed.
    """

    channels = (1, 3)

    def __init__(self, *, source_channels: int) -> None:
        super().__init__()
        self.source_channels = source_channels
        self._pretrained = [efficientnet_lite(LITE0)]  # in a list: not in checkpoints, optimizers and casts
        draw = torch.Generator().manual_seed(0)  # all runs have the same projections
        self.heads, n_embedded = nn.ModuleList(), _EMBEDDED if source_channels else 0
        for number, tap in enumerate(TAPS):
            of_channels = torch.randn(_MIXED, tap.channels, 1, 1, generator=draw, device="cpu")
            of_depths = torch.randn(_MIXED, _MIXED, 3, 3, generator=draw, device="cpu")
            self.register_buffer(f"mix_channels_{number}", of_channels / tap.channels**0.5 / tap.scale)
            self.register_buffer(f"mix_depths_{number}", of_depths / (9 * _MIXED) ** 0.5)
            kernel = 4 if tap.stride == 2 else 3
            first = PairConv2d(_MIXED + n_embedded, _WIDTH, kernel, tap.stride, padding=1)
            second = nn.Conv2d(_WIDTH, _WIDTH, kernel_size=3, padding=1)
            layers = nn.ModuleList(nn.Sequential(layer, nn.LeakyReLU(0.2, inplace=True)) for layer in (first, second))
            parts = {"layers": layers, "head": nn.Conv2d(_WIDTH, 1, kernel_size=3, padding=1)}
            if source_channels:
                parts["embedding"] = nn.Conv2d(source_channels, n_embedded, kernel_size=3, padding=1)
            self.heads.append(nn.ModuleDict(parts))

    @staticmethod
    def least_side() -> int:
        """Return 32, because five strides reduce 32 pixels to 1."""
        return 32

    def forward(self, source: Tensor, image: Tensor) -> list[DiscriminatorOutput]:
        """Return the output for each depth, shallowest first.

        source: (N, C, H, W). image: k images for each source, (k N, 1 or 3, H, W) in [-1, 1].
        """
        outputs = []
        for head, features in zip(self.heads, self._projected(image), strict=True):
            assert isinstance(head, nn.ModuleDict)
            seen = None
            if self.source_channels:
                height, width = features.shape[2:]
                seen = head["embedding"](F.adaptive_avg_pool2d(source, (height, width)))
            outputs.append(discriminate(head, seen, features))
        return outputs

    def _projected(self, image: Tensor) -> list[Tensor]:
        """Return the mixed features of each depth, (N, _MIXED, h, w), computed in float32."""
        features, mixed = [], list[Tensor]()
        with torch.autocast(image.device.type, enabled=False):
            x = (image.float() + 1) / 2
            for part in self._pretrained[0].to(image.device)[: TAPS[-1].part + 1]:
                x = part(x)
                features.append(x)
            for number, tap in reversed([*enumerate(TAPS)]):
                x = F.conv2d(features[tap.part], self.get_buffer(f"mix_channels_{number}").float())
                if mixed:
                    x = (x + F.interpolate(mixed[0], size=x.shape[2:], mode="bilinear")) / 2**0.5
                mixed.insert(0, F.conv2d(x, self.get_buffer(f"mix_depths_{number}").float(), padding=1))
        return [x.to(image.dtype) for x in mixed]
