"""pix2pixHD's encoder of instance features."""

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


def average_in_instances(features: Tensor, instances: Tensor) -> Tensor:
    """(N, C, H, W) features with each pixel replaced by the mean over the pixels of its instance.

    instances: (N, 1, H, W) integer ids.
    """
    n, channels, height, width = features.shape
    image = torch.arange(n, device=instances.device).view(-1, 1, 1, 1).expand_as(instances)
    pairs = torch.stack([image.flatten(), instances.flatten().long()])
    _, region = torch.unique(pairs, dim=1, return_inverse=True)  # (N*H*W,) number of each pixel's region
    pixels = features.permute(0, 2, 3, 1).reshape(-1, channels)
    n_regions = int(region.max()) + 1
    sums = pixels.new_zeros(n_regions, channels).index_add(0, region, pixels)
    means = sums / torch.bincount(region, minlength=n_regions).unsqueeze(1)
    return means[region].view(n, height, width, channels).permute(0, 3, 1, 2)
