"""Instance features sampled from clusters, in place of those of a target (Wang et al. 2018, section 3.4)."""

import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from configs.schema import Config
from data.batch import Batch
from models.feature_clusters import FeatureClusters
from utils.checkpoint import CheckpointError, read_weights_file


@dataclass(frozen=True)
class FeatureSampler:
    """Samples the features of each instance from the clusters of its class.

    The features of an image depend on `seed` and the image's name alone, not on the other images of a run.
    has_classes: whether sources are label maps; all pixels of RGB sources have one class.
    """

    clusters: FeatureClusters
    seed: int
    has_classes: bool

    @property
    def step(self) -> int | None:
        """The training step whose encoder made the clusters; None where it is not known."""
        return self.clusters.step

    def __call__(self, batch: Batch, regions: Tensor) -> Tensor:
        """Return (N, C, H, W) float32 features for the integer ids of regions (N, 1, H, W)."""
        features = []
        for name, source, region in zip(batch.names, batch.source, regions, strict=True):
            rng = np.random.default_rng(image_seed(self.seed, name))
            classes = source if self.has_classes else torch.zeros_like(region)
            features.append(self.clusters.sample(classes[None], region[None], rng))
        return torch.cat(features)


def image_seed(seed: int, name: str) -> int:
    """Return the seed of all random draws for one image, independent of the other images of a run."""
    return zlib.crc32(f"{seed}/{name}".encode(errors="surrogateescape"))  # names of files may hold any bytes


def load_clusters(file: Path) -> FeatureClusters:
    """Read feature clusters.

    Raises:
        CheckpointError: the file cannot be read, or holds no clusters.
    """
    if file.suffix == ".npy":
        raise CheckpointError(
            f"{file}: pix2pixHD's clusters are a pickle, which is not safe to read. Create clusters with python -m "
            "tools.cluster_features --checkpoint latest_net_E.pth --config FILE."
        )
    state = read_weights_file(file)
    try:
        return FeatureClusters.from_state(state)
    except ValueError as error:
        raise CheckpointError(f"{file}: {error}") from error


def sample_config(config: Config, feature_sampler: FeatureSampler | None) -> Config:
    """Return the settings to read samples with: where features are sampled, instance maps but no feature maps."""
    if feature_sampler is None:
        return config
    # no encoder runs, so that its n_downsamplings, 1 or more, may not restrict the sizes of images
    return replace(config, features=replace(config.features, origin="encoded", n_downsamplings=1))
