"""pix2pixHD's multi-scale PatchGAN discriminator."""

from typing import NamedTuple, cast

from torch import Tensor, nn

from models.blocks import Norm, make_norm
from models.pair_convolution import PairConv2d


class DiscriminatorOutput(NamedTuple):
    """What the discriminator says of N images at one scale.

    features: the activations of its layers but the last, (N, C_l, H_l, W_l) each.
    logits: (N, 1, H_s, W_s), one for each patch, unbounded.
    """

    features: list[Tensor]
    logits: Tensor

    def parts(self, n_parts: int) -> list["DiscriminatorOutput"]:
        """The judgements of the first N / n_parts images, of the next, and so on."""
        layers = [layer.chunk(n_parts) for layer in self.features]
        return [
            DiscriminatorOutput([layer[part] for layer in layers], logits)
            for part, logits in enumerate(self.logits.chunk(n_parts))
        ]


def judge_by(layers: nn.ModuleList, head: nn.Module, source: Tensor, image: Tensor) -> DiscriminatorOutput:
    """What layers, of which the first begins with a PairConv2d, and a last convolution say of images of a source."""
    convolution, activation = cast(nn.Sequential, layers[0])
    features = [activation(convolution(source, image))]
    for layer in layers[1:]:
        features.append(layer(features[-1]))
    return DiscriminatorOutput(features, head(features[-1]))


class PatchDiscriminator(nn.Module):
    """PatchGAN: `n_layers` strided 4x4 convolutions, one of stride 1, and one to the logits (Isola et al. 2017).

    padding: 2 in pix2pixHD, where a side that is not halved grows by one; 1 in pix2pix, where it shrinks by one.
    max_channels: where doubling the channels ends; pix2pixHD's 512, in pix2pix 8 * base_channels.
    """

    def __init__(
        self,
        *,
        in_channels: int,
        base_channels: int = 64,
        n_layers: int = 3,
        norm: Norm = "instance",
        padding: int = 2,
        max_channels: int = 512,
    ) -> None:
        super().__init__()
        widths = [min(base_channels * 2**level, max_channels) for level in range(n_layers + 1)]
        first = nn.Sequential(
            PairConv2d(in_channels, widths[0], kernel_size=4, stride=2, padding=padding),
            nn.LeakyReLU(0.2, inplace=True),
        )
        inner = [
            nn.Sequential(
                _conv4(widths[k - 1], widths[k], stride=2 if k < n_layers else 1, padding=padding, bias=False),
                make_norm(norm, widths[k]),
                nn.LeakyReLU(0.2, inplace=True),
            )
            for k in range(1, n_layers + 1)
        ]
        self.layers = nn.ModuleList([first, *inner])
        self.head = _conv4(widths[-1], 1, stride=1, padding=padding, bias=True)

    def forward(self, source: Tensor, image: Tensor) -> DiscriminatorOutput:
        """Judge images of a source, in_channels together."""
        return judge_by(self.layers, self.head, source, image)


class MultiscalePatchDiscriminator(nn.Module):
    """One PatchGAN for each level of an image pyramid (Wang et al. 2018, section 3.2).

    With one scale and padding 1 it is pix2pix's 70x70 PatchGAN.
    """

    def __init__(
        self,
        *,
        source_channels: int,
        image_channels: int = 3,
        base_channels: int = 64,
        n_layers: int = 3,
        n_scales: int = 2,
        norm: Norm = "instance",
        padding: int = 2,
        max_channels: int = 512,
    ) -> None:
        super().__init__()
        self.scales = nn.ModuleList(
            PatchDiscriminator(
                in_channels=source_channels + image_channels,
                base_channels=base_channels,
                n_layers=n_layers,
                norm=norm,
                padding=padding,
                max_channels=max_channels,
            )
            for _ in range(n_scales)
        )
        self.pool = nn.AvgPool2d(kernel_size=3, stride=2, padding=1, count_include_pad=False)

    def forward(self, source: Tensor, image: Tensor) -> list[DiscriminatorOutput]:
        """Judge `image`, (k N, image_channels, H, W) in [-1, 1]: k translations of each `source`, (N, C, H, W).

        Returns a judgement for each scale, the full resolution first.
        """
        judgements = []
        for level, scale in enumerate(self.scales):
            if level:
                source, image = self.pool(source), self.pool(image)
            judgements.append(scale(source, image))
        return judgements


def _conv4(in_channels: int, out_channels: int, *, stride: int, padding: int, bias: bool) -> nn.Conv2d:
    return nn.Conv2d(in_channels, out_channels, kernel_size=4, stride=stride, padding=padding, bias=bias)
