"""pix2pixHD's encoder of instance features, and a generator that is conditioned on them."""

import torch
from torch import Tensor, nn

from models.blocks import Norm
from models.generator import EncodedGenerator, Generator
from models.global_generator import GlobalGenerator
from utils.precision import at_least_float32


class FeatureEncoder(nn.Module):
    """Encoder of an image into features that are constant within each instance (Wang et al. 2018, section 3.4)."""

    def __init__(
        self,
        *,
        in_channels: int = 3,
        n_features: int = 3,
        base_channels: int = 16,
        n_downsamplings: int = 4,
        norm: Norm = "instance",
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.n_features = n_features
        self.n_downsamplings = n_downsamplings
        self.network = GlobalGenerator(
            in_channels=in_channels,
            out_channels=n_features,
            base_channels=base_channels,
            n_downsamplings=n_downsamplings,
            n_blocks=0,
            norm=norm,
        )

    def forward(self, image: Tensor, instances: Tensor) -> Tensor:
        """Encode (N, in_channels, H, W) images in [-1, 1] into features (N, n_features, H, W) in [-1, 1].

        instances: (N, 1, H, W) integer ids; equal ids in different images are different instances.
        """
        return average_in_instances(self.network(image), instances)


class FeatureConditionedGenerator(EncodedGenerator):
    """A generator with instance features among its input channels, and the encoder that computes them."""

    encoder: FeatureEncoder

    def __init__(self, generator: Generator, encoder: FeatureEncoder) -> None:
        super().__init__(generator, encoder)

    def forward(self, source: Tensor, image: Tensor, instances: Tensor) -> Tensor:
        """Translate a source (N, C, H, W) with the features of `image`, (N, 3, H, W) in [-1, 1].

        instances: (N, 1, H, W) integer ids of the regions over which the features are averaged.
        """
        return self.generator(torch.cat([source, self.encoder(image, instances)], dim=1))


def average_in_instances(features: Tensor, instances: Tensor) -> Tensor:
    """Return (N, C, H, W) features in which each pixel is the mean over the pixels of its instance.

    instances: (N, 1, H, W) integer ids. The result is at least float32: in fewer bits, sums over many pixels saturate.
    """
    n, channels, height, width = features.shape
    region = number_regions(instances).flatten()
    pixels = features.permute(0, 2, 3, 1).reshape(-1, channels)
    pixels = at_least_float32(pixels)
    # one sum for each pixel, because counting the regions would make the host wait for the device
    sums = torch.zeros_like(pixels).index_add(0, region, pixels)
    areas = torch.zeros_like(pixels[:, 0]).index_add(0, region, torch.ones_like(pixels[:, 0]))
    means = sums / areas.clamp(min=1).unsqueeze(1)
    return means[region].view(n, height, width, channels).permute(0, 3, 1, 2)


def number_regions(instances: Tensor) -> Tensor:
    """Return (N, 1, H, W) int64 region numbers from 0, one for each id of each image, of (N, 1, H, W) integer ids."""
    image = torch.arange(len(instances), device=instances.device).view(-1, 1, 1, 1)
    keys = (image * 2**32 + instances.long()).flatten()
    ascending, order = keys.sort()
    is_next = torch.zeros_like(ascending)
    is_next[1:] = ascending[1:] != ascending[:-1]
    return torch.empty_like(keys).scatter_(0, order, is_next.cumsum(0)).view(instances.shape)
