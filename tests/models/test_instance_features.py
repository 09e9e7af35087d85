"""The encoder of instance features, and clusters of them."""

import numpy as np
import pytest
import torch

from models.instance_features import FeatureClusters, RegionFeatures, average_in_instances


def test_features_are_averaged_in_each_instance_of_each_image() -> None:
    features = torch.randn(2, 3, 6, 8)
    instances = torch.randint(0, 4, (2, 1, 6, 8), generator=torch.Generator().manual_seed(0)) * 1000
    averaged = average_in_instances(features, instances)
    for n in range(2):
        for instance in instances[n].unique():
            region = instances[n, 0] == instance
            expected = features[n, :, region].mean(dim=1, keepdim=True).expand(-1, int(region.sum()))
            torch.testing.assert_close(averaged[n, :, region], expected)


CENTERS = {1: torch.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]), 2: torch.tensor([[-1.0, 1.0]])}
INSTANCES = torch.tensor([[7, 7, 26001, 26001], [7, 7, 26002, 5], [9, 9, 26002, 5]]).view(1, 1, 3, 4)
CLASSES = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 3], [2, 2, 1, 3]], dtype=torch.uint8).view(1, 1, 3, 4)


def sample(seed: int) -> torch.Tensor:
    return FeatureClusters(CENTERS).sample(CLASSES, INSTANCES, np.random.default_rng(seed))


def test_each_instance_has_one_centre_of_its_class() -> None:
    features = sample(0)
    assert features.shape == (1, 2, 3, 4)
    for instance in INSTANCES.unique():
        inside = (INSTANCES[0, 0] == instance).nonzero()
        found = features[0, :, inside[:, 0], inside[:, 1]].T.unique(dim=0)
        assert len(found) == 1
        class_id = int(CLASSES[0, 0, inside[0, 0], inside[0, 1]])
        allowed = CENTERS.get(class_id, torch.zeros(1, 2))  # class 3 has no clusters
        assert (found[0] == allowed).all(dim=1).any()


def test_instances_of_a_class_are_drawn_each_for_itself() -> None:
    pairs = {(float(sample(seed)[0, 0, 0, 2]), float(sample(seed)[0, 0, 1, 2])) for seed in range(60)}
    assert len(pairs) == 9


def test_the_features_of_regions_are_gathered_with_class_and_share() -> None:
    features = torch.stack([INSTANCES.float(), -INSTANCES.float()], dim=1).view(1, 2, 3, 4)
    regions = RegionFeatures.of(features, CLASSES, INSTANCES)
    found = {
        float(values[0]): (int(class_id), float(share))
        for values, class_id, share in zip(regions.features, regions.classes, regions.shares, strict=True)
    }
    assert found == {
        5: (3, pytest.approx(2 / 12)),
        7: (1, pytest.approx(4 / 12)),
        9: (2, pytest.approx(2 / 12)),
        26001: (1, pytest.approx(2 / 12)),
        26002: (1, pytest.approx(2 / 12)),
    }
    assert torch.equal(regions.features[:, 1], -regions.features[:, 0])


@pytest.mark.parametrize(
    "centers", [None, {}, {1: torch.zeros(3)}, {1: torch.zeros(0, 3)}, {1: torch.zeros(1, 3), 2: torch.zeros(1, 2)}]
)
def test_states_without_clusters_are_refused(centers: object) -> None:
    with pytest.raises(ValueError, match="holds no feature clusters"):
        FeatureClusters.from_state({"feature_clusters": centers})
