"""pix2pixHD's looks to choose from: clusters of the instance features of each class."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from models.feature_encoder import number_regions

FILE_NAME = "feature_clusters.pt"  # in the folder of the run whose encoder made them
_KEY = "feature_clusters"


@dataclass(frozen=True)
class FeatureClusters:
    """Cluster centres of the features of each class (Wang et al. 2018, section 3.4).

    centers: class id -> (n_clusters, C) float32 in [-1, 1].
    step: of the training whose encoder made them; None where that is not known.
    """

    centers: dict[int, Tensor]
    step: int | None = None

    @property
    def n_channels(self) -> int:
        """C, the number of channels of the features."""
        return next(iter(self.centers.values())).shape[1]

    def sample(self, classes: Tensor, instances: Tensor, rng: np.random.Generator) -> Tensor:
        """Features (1, C, H, W) in which each instance has one look, drawn from those of its class.

        classes: (1, 1, H, W) class ids; an instance has the class of most of its pixels.
        instances: (1, 1, H, W) integer ids.
        A class without clusters gets zeros.
        """
        region = number_regions(instances).flatten().cpu()
        class_of_region = _most_frequent(classes.flatten().cpu().long(), region)
        looks = torch.zeros(len(class_of_region), self.n_channels)
        draws = rng.random(len(looks))
        for class_id, centers in self.centers.items():
            members = (class_of_region == class_id).nonzero().flatten()
            looks[members] = centers[(torch.from_numpy(draws)[members] * len(centers)).long()]
        height, width = instances.shape[-2:]
        return looks[region].T.reshape(1, -1, height, width).to(instances.device)

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain types, for a file."""
        return {_KEY: dict(self.centers), "step": self.step}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """What `state_dict` gave.

        Raises:
            ValueError: it is something else.
        """
        centers = state.get(_KEY)
        if not isinstance(centers, dict) or not centers:
            raise ValueError("holds no feature clusters; python -m tools.cluster_features writes them")
        if not all(isinstance(c, Tensor) and c.dim() == 2 and len(c) for c in centers.values()):
            raise ValueError("its feature clusters are no (n_clusters, C) tensors")
        if len({c.shape[1] for c in centers.values()}) != 1:
            raise ValueError("its feature clusters differ in their number of channels")
        return cls({int(key): value.float() for key, value in centers.items()}, state.get("step"))


@dataclass(frozen=True)
class RegionFeatures:
    """The features of R regions of images.

    classes: (R,) int64. features: (R, C) float32. shares: (R,) share of the image that each region covers.
    """

    classes: Tensor
    features: Tensor
    shares: Tensor

    @classmethod
    def of(cls, features: Tensor, classes: Tensor, instances: Tensor) -> Self:
        """The regions of one image, from maps that are constant in each: (1, C, H, W), (1, 1, H, W), (1, 1, H, W)."""
        region = number_regions(instances).flatten()
        class_of_region = _most_frequent(classes.flatten().long(), region)
        areas = torch.bincount(region)
        looks = features.new_zeros(len(areas), features.shape[1])
        looks[region] = features[0].flatten(1).T  # every pixel of a region writes the same
        return cls(class_of_region, looks.float(), areas / areas.sum())


def _most_frequent(classes: Tensor, region: Tensor) -> Tensor:
    """(R,) the class that most pixels of each region have, from (P,) classes and region numbers of pixels."""
    n_regions, n_classes = int(region.max()) + 1, int(classes.max()) + 1
    return torch.bincount(region * n_classes + classes, minlength=n_regions * n_classes).view(n_regions, -1).argmax(1)
