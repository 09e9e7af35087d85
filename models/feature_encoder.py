"""pix2pixHD's encoder of instance features."""

from typing import cast

import torch
from torch import Tensor, nn

from models.blocks import Norm
from models.global_generator import GlobalGenerator


class FeatureEncoder(nn.Module):
    """Low-dimensional features of a photo, constant in each instance (Wang et al. 2018, section 3.4)."""

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
        """Features (N, n_features, H, W) in [-1, 1] of (N, in_channels, H, W) images, averaged in each instance.

        instances: (N, 1, H, W) integer ids; an id means an instance of its own in each image of the batch.
        """
        return average_in_instances(self.network(image), instances)


class FeatureConditionedGenerator(nn.Module):
    """A generator that is given instance features beside the source, and the encoder that makes them in training."""

    def __init__(self, generator: nn.Module, encoder: FeatureEncoder) -> None:
        super().__init__()
        self.generator = generator
        self.encoder = encoder

    @property
    def coarse_parts(self) -> list[str]:
        """The prefixes of the names of the parameters below the finest level, where the generator has levels."""
        return [f"generator.{prefix}" for prefix in cast(list[str], self.generator.coarse_parts)]

    def forward(self, source: Tensor, image: Tensor, instances: Tensor) -> Tensor:
        """Translate a source (N, C, H, W) in the look of `image`, (N, 3, H, W) in [-1, 1].

        instances: (N, 1, H, W) integer ids of the regions in which the look is one.
        """
        return self.generator(torch.cat([source, self.encoder(image, instances)], dim=1))


def average_in_instances(features: Tensor, instances: Tensor) -> Tensor:
    """(N, C, H, W) features with each pixel replaced by the mean over the pixels of its instance.

    instances: (N, 1, H, W) integer ids. Returns at least float32: in fewer bits a sum of many pixels would stop to
    grow.
    """
    n, channels, height, width = features.shape
    region = number_regions(instances).flatten()
    pixels = features.permute(0, 2, 3, 1).reshape(-1, channels)
    pixels = pixels.to(torch.promote_types(pixels.dtype, torch.float32))
    # as many sums as pixels: to count the regions would make the host wait for the device
    sums = torch.zeros_like(pixels).index_add(0, region, pixels)
    areas = torch.zeros_like(pixels[:, 0]).index_add(0, region, torch.ones_like(pixels[:, 0]))
    means = sums / areas.clamp(min=1).unsqueeze(1)
    return means[region].view(n, height, width, channels).permute(0, 3, 1, 2)


def number_regions(instances: Tensor) -> Tensor:
    """(N, 1, H, W) integer ids -> (N, 1, H, W) int64 numbers from 0: one for each id of each image of the batch."""
    image = torch.arange(len(instances), device=instances.device).view(-1, 1, 1, 1)
    keys = (image * 2**32 + instances.long()).flatten()
    ascending, order = keys.sort()
    is_next = torch.zeros_like(ascending)
    is_next[1:] = ascending[1:] != ascending[:-1]
    return torch.empty_like(keys).scatter_(0, order, is_next.cumsum(0)).view(instances.shape)
