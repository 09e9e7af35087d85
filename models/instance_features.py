"""pix2pixHD's instance features: an encoder, a generator that uses the features, and clusters of features."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from models.blocks import Norm
from models.generator import EncodedGenerator
from models.global_generator import GlobalGenerator
from utils.device import at_least_float32


class FeatureEncoder(nn.Module):
    """Encoder that maps an image to features that are constant within each instance (Wang et al. 2018, section 3.4)."""

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
        """Encode (N, in_channels, H, W) images in [-1, 1] to features (N, n_features, H, W) in [-1, 1].

        instances: Integer ids (N, 1, H, W). Equal ids in different images are different instances.
        """
        return average_in_instances(self.network(image), instances)


class FeatureConditionedGenerator(EncodedGenerator):
    """A generator with instance features among its input channels, and the encoder that computes the features."""

    encoder: FeatureEncoder

    def forward(self, source: Tensor, image: Tensor, instances: Tensor) -> Tensor:
        """Translate a source (N, C, H, W) with the features of `image`, (N, 3, H, W) in [-1, 1].

        instances: Integer ids (N, 1, H, W). Features are averaged over each instance.
        """
        return self.generator(torch.cat([source, self.encoder(image, instances)], dim=1))


def average_in_instances(features: Tensor, instances: Tensor) -> Tensor:
    """Return features (N, C, H, W), averaged over each instance, in at least float32. instances: Ids (N, 1, H, W)."""
    n, channels, height, width = features.shape
    region = number_regions(instances).flatten()
    pixels = at_least_float32(features.permute(0, 2, 3, 1).reshape(-1, channels))  # float16 cannot hold the sums
    # one row per pixel instead of per region, because counting the regions would make the host wait for the device
    sums = torch.zeros_like(pixels).index_add(0, region, pixels)
    areas = torch.zeros_like(pixels[:, 0]).index_add(0, region, torch.ones_like(pixels[:, 0]))
    means = sums / areas.clamp(min=1).unsqueeze(1)
    return means[region].view(n, height, width, channels).permute(0, 3, 1, 2)


def number_regions(instances: Tensor) -> Tensor:
    """Return region numbers from 0, (N, 1, H, W) int64. A region is the set of pixels with equal ids in one image."""
    image = torch.arange(len(instances), device=instances.device).view(-1, 1, 1, 1)
    keys = (image * 2**32 + instances.long()).flatten()
    ascending, order = keys.sort()
    is_next = torch.zeros_like(ascending)
    is_next[1:] = ascending[1:] != ascending[:-1]
    return torch.empty_like(keys).scatter_(0, order, is_next.cumsum(0)).view(instances.shape)


FILE_NAME = "feature_clusters.pt"  # a file in the folder of the encoder's run
_KEY = "feature_clusters"


@dataclass(frozen=True)
class FeatureClusters:
    """Cluster centres of the features of each class (Wang et al. 2018, section 3.4).

    centers: Centres by class id, (n_clusters, C) float32 in [-1, 1].
    step: Training step of the encoder, if known.
    """

    centers: dict[int, Tensor]
    step: int | None = None

    @property
    def n_channels(self) -> int:
        """Number of channels of the features, C."""
        return next(iter(self.centers.values())).shape[1]

    def sample(self, classes: Tensor, instances: Tensor, rng: np.random.Generator) -> Tensor:
        """Return features (1, C, H, W): each instance gets a random cluster centre of its class.

        The class of an instance is its most frequent class. Classes without clusters get zeros.

        classes, instances: Integer ids, (1, 1, H, W).
        """
        region = number_regions(instances).flatten().cpu()
        class_of_region = _most_frequent(classes.flatten().cpu().long(), region)
        features = torch.zeros(len(class_of_region), self.n_channels)
        draws = rng.random(len(features))
        for class_id, centers in self.centers.items():
            members = (class_of_region == class_id).nonzero().flatten()
            features[members] = centers[(torch.from_numpy(draws)[members] * len(centers)).long()]
        height, width = instances.shape[-2:]
        return features[region].T.reshape(1, -1, height, width).to(instances.device)

    def state_dict(self) -> dict[str, Any]:
        """Return the clusters as tensors and plain Python types, for a file."""
        return {_KEY: dict(self.centers), "step": self.step}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return clusters from the result of `state_dict`. Raise ValueError if `state` holds no clusters."""
        found = state.get(_KEY)
        centers: dict[Any, Any] = found if isinstance(found, dict) else {}
        are_matrices = all(isinstance(c, Tensor) and c.dim() == 2 and len(c) for c in centers.values())
        if not are_matrices or len({c.shape[1] for c in centers.values()}) != 1:
            raise ValueError("holds no feature clusters. Write a new file with python -m tools.cluster_features")
        return cls({int(key): value.float() for key, value in centers.items()}, state.get("step"))


@dataclass(frozen=True)
class RegionFeatures:
    """R regions of an image: classes (R,) int64, features (R, C) float32, and fractions of the image's area (R,)."""

    classes: Tensor
    features: Tensor
    shares: Tensor

    @classmethod
    def of(cls, features: Tensor, classes: Tensor, instances: Tensor) -> Self:
        """Return the regions of one image. The class of a region is its most frequent class.

        features: (1, C, H, W), constant in each region. classes, instances: Integer ids, (1, 1, H, W).
        """
        region = number_regions(instances).flatten()
        class_of_region = _most_frequent(classes.flatten().long(), region)
        areas = torch.bincount(region)
        of_region = features.new_zeros(len(areas), features.shape[1])
        of_region[region] = features[0].flatten(1).T  # every pixel of a region writes the same values
        return cls(class_of_region, of_region.float(), areas / areas.sum())


def _most_frequent(classes: Tensor, region: Tensor) -> Tensor:
    """Return the most frequent class of each region, (R,). classes, region: One value per pixel, (P,)."""
    n_regions, n_classes = int(region.max()) + 1, int(classes.max()) + 1
    return torch.bincount(region * n_classes + classes, minlength=n_regions * n_classes).view(n_regions, -1).argmax(1)
