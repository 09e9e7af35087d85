import numpy as np
import pytest
import torch

from metrics.constant_color import ConstantColorBaseline


def test_the_best_constant_colours_are_the_medians_of_each_class() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, (4, 16, 16))
    targets = (labels[:, None] * 60 + rng.integers(0, 40, (4, 3, 16, 16))).astype(np.uint8)
    baseline = ConstantColorBaseline(n_classes=3)
    for label, target in zip(labels, targets, strict=True):
        baseline.add(torch.from_numpy(label[None].astype(np.uint8)), torch.from_numpy(target))
    constant = np.empty_like(targets, dtype=float)
    for k in range(3):
        for channel in range(3):
            values = targets[:, channel][labels == k]
            constant[:, channel][labels == k] = np.median(values)
    assert baseline.l1() == pytest.approx(np.abs(targets - constant).mean() / 255, rel=1e-6)


@pytest.mark.parametrize("step", [2, 4])
def test_classes_of_a_smaller_or_larger_label_map_are_those_of_the_same_place(step: int) -> None:
    labels = torch.randint(0, 3, (1, 8, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    large = labels.repeat_interleave(step, 1).repeat_interleave(step, 2)
    for source, classes in ((labels, large), (large, labels)):
        baseline = ConstantColorBaseline(n_classes=3)
        baseline.add(source, (classes * 100).expand(3, -1, -1))
        assert baseline.l1() == 0


def test_baselines_of_several_processes_are_added_up() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (2, 1, 8, 8), dtype=torch.uint8, generator=generator)
    targets = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8, generator=generator)
    together, first, second = (ConstantColorBaseline(n_classes=3) for _ in range(3))
    for label, target, one in zip(labels, targets, (first, second), strict=True):
        one.add(label, target)
        together.add(label, target)
    first.add_all(second)
    assert first.l1() == together.l1()


def test_weights_are_weights_of_the_medians_and_of_the_mean() -> None:
    source, target = torch.zeros(3, 1, 4, dtype=torch.uint8), torch.tensor([[[0, 0, 200, 250]]], dtype=torch.uint8)
    baseline = ConstantColorBaseline(0, n_channels=1)
    assert baseline.l1() is None
    baseline.add(source, target, torch.zeros(1, 1, 4))
    assert baseline.l1() is None  # nothing counts
    baseline.add(source, target, torch.tensor([[[0.0, 0, 6, 2]]]))
    assert baseline.l1() == pytest.approx(50 * 2 / 8 / 255)
