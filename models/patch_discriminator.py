"""The PatchGAN discriminators of pix2pixHD and pix2pix."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import ClassVar, NamedTuple, cast

from torch import Tensor, nn

from models.blocks import Downsample, Norm, make_norm
from models.layers import AntialiasedDownsampling, PairConv2d


class DiscriminatorOutput(NamedTuple):
    """The output of a discriminator for N images at one scale of an image pyramid.

    features: Activations of all layers except the last, (N, C_l, H_l, W_l) each.
    logits: One logit for each patch, (N, 1, H_s, W_s). A discriminator that classifies pixels returns 1 + K logits for
        each pixel, (N, 1 + K, H, W).
    """

    features: list[Tensor]
    logits: Tensor

    def chunk(self, n_chunks: int) -> list["DiscriminatorOutput"]:
        """Return the outputs for n_chunks groups of images, split as by Tensor.chunk."""
        layers = [layer.chunk(n_chunks) for layer in self.features]
        return [
            DiscriminatorOutput([layer[number] for layer in layers], logits)
            for number, logits in enumerate(self.logits.chunk(n_chunks))
        ]


class Discriminator(nn.Module):
    """A network that maps (source, image) to a list[DiscriminatorOutput]. The constructor's arguments are its settings.

    classifies_pixels: Whether the discriminator returns pixel logits (N, 1 + K, H, W) for K classes, and no features.
    keeps_normed_weights: Same as `Generator.keeps_normed_weights`, for discriminator.spectral_norm=inner.
    channels: Possible numbers of image channels; None for any number.
    n_outputs: Number of outputs, which loss.over_scales combines; None if it is unknown or depends on settings.
    """

    channels: ClassVar[tuple[int, ...] | None] = None
    n_outputs: ClassVar[int | None] = None
    classifies_pixels: ClassVar[bool] = False
    keeps_normed_weights: ClassVar[bool] = True

    least_side: ClassVar[Callable[..., int]]
    """Static method that returns the least allowed height and width, in pixels, for a network with these settings."""


def discriminate(network: nn.Module, source: Tensor | None, image: Tensor) -> DiscriminatorOutput:
    """Return the outputs of a network's `layers` and `head`. The first of `layers` must begin with a PairConv2d."""
    first, *inner = cast(nn.ModuleList, network.layers)
    convolution, *others = cast(nn.Sequential, first)
    features = [nn.Sequential(*others)(convolution(source, image))]
    for layer in inner:
        features.append(layer(features[-1]))
    return DiscriminatorOutput(features, network.get_submodule("head")(features[-1]))


class MultiscalePatchDiscriminator(Discriminator):
    """One PatchGAN for each level of an image pyramid (Wang et al. 2018, section 3.2).

    A PatchGAN has `n_layers` 4x4 convolutions of stride 2, then two 4x4 convolutions of stride 1. The last convolution
    returns the logits (Isola et al. 2017). With n_scales=1 and padding=1, this is pix2pix's 70x70 PatchGAN.

    source_channels: Channels of the source; 0 if the discriminator sees only the image, as in CycleGAN and CUT.
    padding: Zero padding of each convolution, in pixels; 2 in pix2pixHD, 1 in pix2pix.
    max_channels: Largest number of channels of a layer; 512 in pix2pixHD, 8 * base_channels in pix2pix.
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
        downsample: Downsample = "strided",
    ) -> None:
        super().__init__()
        self.source_channels, self.downsample = source_channels, downsample
        halving_stride, blur = (2, []) if downsample == "strided" else (1, [AntialiasedDownsampling()])
        in_channels, conv4 = source_channels + image_channels, partial(nn.Conv2d, kernel_size=4, padding=padding)
        widths = [min(base_channels * 2**level, max_channels) for level in range(n_layers + 1)]
        self.scales = nn.ModuleList()
        for _ in range(n_scales):
            first = PairConv2d(in_channels, widths[0], kernel_size=4, stride=halving_stride, padding=padding)
            layers = nn.ModuleList([nn.Sequential(first, nn.LeakyReLU(0.2, inplace=True), *blur)])
            for level, (before, after) in enumerate(pairwise(widths), start=1):
                is_last = level == n_layers
                convolution = conv4(before, after, stride=1 if is_last else halving_stride, bias=False)
                normed = [convolution, make_norm(norm, after), nn.LeakyReLU(0.2, inplace=True)]
                layers.append(nn.Sequential(*normed, *([] if is_last else blur)))
            self.scales.append(nn.ModuleDict({"layers": layers, "head": conv4(widths[-1], 1)}))
        self.pool = nn.AvgPool2d(kernel_size=3, stride=2, padding=1, count_include_pad=False)

    @staticmethod
    def least_side(*, n_layers: int, n_scales: int, padding: int, downsample: Downsample) -> int:
        """Return the smallest height and width that give each norm at least two pixels per side."""
        lost = 3 - 2 * padding  # pixels that a convolution of stride 1 removes from a side
        normed = 2 if downsample == "strided" else 1  # a norm needs 2 pixels; a blur halves the side after the norm
        side = 2 + lost
        for least in [normed] * (n_layers - 1) + [1]:  # the last layer comes first; the first layer has no norm
            side = 2 * max(side, least) - 1 + lost
        return (max(side, 1) - 1) * 2 ** (n_scales - 1) + 1

    def forward(self, source: Tensor, image: Tensor) -> list[DiscriminatorOutput]:
        """Return the output of each scale, full resolution first.

        source: (N, C, H, W). image: k images for each source, (k N, image_channels, H, W) in [-1, 1].
        """
        seen = source if self.source_channels else None
        outputs = []
        for level, scale in enumerate(self.scales):
            if level:
                seen, image = None if seen is None else self.pool(seen), self.pool(image)
            outputs.append(discriminate(scale, seen, image))
        return outputs


class PixelDiscriminator(Discriminator):
    """Three 1x1 convolutions that score the colour of each pixel separately (Isola et al. 2017, section 6.1.2).

    As in pix2pix, the last convolution has a bias with instance norm, and no bias with batch norm.
    """

    n_outputs = 1

    def __init__(
        self, *, source_channels: int, image_channels: int = 3, base_channels: int = 64, norm: Norm = "batch"
    ) -> None:
        super().__init__()
        self.source_channels = source_channels
        in_channels = source_channels + image_channels
        first = nn.Sequential(PairConv2d(in_channels, base_channels, kernel_size=1), nn.LeakyReLU(0.2, inplace=True))
        second = nn.Sequential(
            nn.Conv2d(base_channels, 2 * base_channels, kernel_size=1, bias=False),
            make_norm(norm, 2 * base_channels),
            nn.LeakyReLU(0.2, inplace=True),
        )
        self.layers = nn.ModuleList([first, second])
        self.head = nn.Conv2d(2 * base_channels, 1, kernel_size=1, bias=norm == "instance")

    @staticmethod
    def least_side() -> int:
        """Return 2, because a norm needs more than one pixel for its statistics."""
        return 2

    def forward(self, source: Tensor, image: Tensor) -> list[DiscriminatorOutput]:
        """Return the output at one scale. The arguments are the same as in `MultiscalePatchDiscriminator`."""
        return [discriminate(self, source if self.source_channels else None, image)]
