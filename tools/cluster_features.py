"""Cluster the instance features of each class with k-means. test.py samples features from the clusters.

python -m tools.cluster_features [--checkpoint RUN] [--output FILE]
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from models.instance_features import FILE_NAME, FeatureClusters, RegionFeatures
from tools.precompute_features import EncodedSample, parse_with_split
from utils.checkpoint import write_weights_file
from utils.cli import ArgumentParser, run_entry_point, whole_number
from utils.errors import ConfigError
from utils.log import logger
from utils.text import counted

MIN_SHARE = 1 / 64  # share of the image; smaller instances are left out, as in pix2pixHD


def cluster(samples: Iterable[EncodedSample], n_clusters: int, step: int | None = None) -> FeatureClusters:
    """Return the k-means clusters of each class. Leave out instances that cover at most MIN_SHARE of their image.

    Raises:
        ConfigError: scikit-learn is not installed, all instances are too small, or features are not finite.
    """
    try:
        from sklearn.cluster import KMeans
    except ImportError as error:
        raise ConfigError("scikit-learn is not installed: python -m pip install scikit-learn") from error
    by_class: dict[int, list[Tensor]] = {}
    for sample in samples:
        found = RegionFeatures.of(sample.features, sample.classes, sample.regions)
        is_large = found.shares > MIN_SHARE
        for class_id, features in zip(found.classes[is_large].tolist(), found.features[is_large].cpu(), strict=True):
            by_class.setdefault(class_id, []).append(features)
    if not by_class:
        raise ConfigError(
            f"no instance covers more than {MIN_SHARE:.1%} of its image: nothing to cluster. Use another --split."
        )
    centers = {}
    for class_id, vectors in sorted(by_class.items()):
        features = torch.stack(vectors)
        if not features.isfinite().all():
            raise ConfigError("the encoder's features are not finite. Its weights are damaged. Use another checkpoint.")
        distinct = len(features.unique(dim=0))
        means = KMeans(min(n_clusters, distinct), n_init=10, random_state=0).fit(features.numpy())
        centers[class_id] = torch.from_numpy(means.cluster_centers_).float()
        logger.info("class %3d     %5d instances, %2d clusters", class_id, len(features), len(centers[class_id]))
    return FeatureClusters(centers, step)


def main(argv: Sequence[str]) -> None:
    """Cluster the features of one split and write the clusters to a file."""
    parser = ArgumentParser(description="Cluster the instance features of each class.")
    clusters_help = "maximum number of clusters per class; default: 10"
    parser.add_argument("--clusters", type=whole_number(1), default=10, metavar="N", help=clusters_help)
    parser.add_argument("--output", type=Path, metavar="FILE", help=f"default: {FILE_NAME} next to the checkpoint")
    arguments, split = parse_with_split(parser, argv)
    output = arguments.output or split.file.parent / FILE_NAME
    if output.exists() and output.name != FILE_NAME:
        raise ConfigError(f"{output}: already exists. Choose another --output, or remove it.")
    write_weights_file(output, cluster(split, arguments.clusters, split.step).state_dict())
    logger.info("wrote the clusters of %s: %s", counted(len(split.layout), "image"), output)


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
