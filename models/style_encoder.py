"""SPADE's style encoder. With a generator as the decoder, it forms a variational autoencoder.

Park et al. 2019, section 3 ("Multi-modal synthesis") and appendix A; Kingma & Welling 2014, "Auto-encoding variational
Bayes".
"""

from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.blocks import RecomputableSequential
from models.generator import EncodedGenerator
from models.layers import InstanceNorm
from utils.device import at_least_float32

SIDE = 256  # height and width of the resized images; the Linear layers need this size
_WIDTHS = (1, 2, 4, 8, 8, 8)  # multiples of base_channels
_LAST_SIDE = SIDE // 2 ** len(_WIDTHS)


class StyleDistribution(NamedTuple):
    """Independent normal distributions of styles: mean and log variance, (N, style_channels), at least float32."""

    mean: Tensor
    log_variance: Tensor

    def at(self, deviations: Tensor) -> Tensor:
        """Return the styles that are `deviations` standard deviations from the mean, (N, style_channels)."""
        return self.mean + deviations * (self.log_variance / 2).exp()

    def sample(self) -> Tensor:
        """Return random styles (N, style_channels), drawn with the random state of the device."""
        return self.at(torch.randn_like(self.mean))


class StyledImages(NamedTuple):
    """Translated images, (N, C, H, W) in [-1, 1], and the distributions of their styles."""

    images: Tensor
    style: StyleDistribution


class StyleEncoder(nn.Module):
    """Encoder: resizing to 256x256 pixels, strided convolutions, linear layers for mean and log variance.

    Unlike in the original, the layers do not depend on the size of the training images.
    """

    def __init__(self, *, in_channels: int = 3, style_channels: int = 256, base_channels: int = 64) -> None:
        super().__init__()
        self.style_channels = style_channels
        widths = [in_channels, *(base_channels * factor for factor in _WIDTHS)]
        self.layers = nn.Sequential()
        for before, after in pairwise(widths):
            convolution = nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1, bias=False)
            self.layers.append(RecomputableSequential(convolution, InstanceNorm(after), nn.LeakyReLU(0.2)))
        n_features = widths[-1] * _LAST_SIDE**2
        self.mean = nn.Linear(n_features, style_channels)
        self.log_variance = nn.Linear(n_features, style_channels)

    def forward(self, image: Tensor) -> StyleDistribution:
        """Return the distributions of the styles of images (N, in_channels, H, W) in [-1, 1]."""
        if image.shape[2:] != (SIDE, SIDE):
            image = F.interpolate(image, size=(SIDE, SIDE), mode="bilinear", align_corners=False)
        features = self.layers(image).flatten(1)
        return StyleDistribution(at_least_float32(self.mean(features)), at_least_float32(self.log_variance(features)))


class StyleConditionedGenerator(EncodedGenerator):
    """A generator (source, style) -> image, together with a style encoder.

    Training uses both. Prediction uses the generator with a random style, or with the style of another image.
    """

    encoder: StyleEncoder

    def forward(self, source: Tensor, image: Tensor) -> StyledImages:
        """Translate a source (N, C, H, W) in the style of `image`, (N, 3 or 1, H, W) in [-1, 1].

        In training mode the styles are random samples. In evaluation mode they are the means.
        """
        style = self.encoder(image)
        images = self.generator(source, style.sample() if self.training else style.mean)
        return StyledImages(images, style)


def inference_network(network: nn.Module) -> nn.Module:
    """Return the network for prediction: `network` without its style encoder, if it has one."""
    return network.generator if isinstance(network, StyleConditionedGenerator) else network
