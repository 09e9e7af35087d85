import pytest
import torch

from data.batch import Sample
from data.facades.dataset import SyntheticDayNight, SyntheticFacades
from data.facades.house_front import CLASS_COLORS
from data.layout import Layout

SIZES = [(101, 77), (32, 320), (320, 32)]

# Pixels per class, highest instance id, and the mean of each quarter of the photo per channel, of one sample.
PINNED_AREAS = [5556, 3979, 0, 1040, 350, 0, 242, 984, 2240, 0, 79, 1914]
PINNED_LAST_INSTANCE = 19
PINNED_QUARTERS = [[[146.6, 141.1], [142.4, 138.5]], [[149.0, 146.6], [120.2, 119.4]], [[166.3, 165.9], [109.6, 112.9]]]


def _facades(
    *, split: str = "train", seed: int = 0, n_samples: int = 20, height: int = 64, width: int = 64
) -> SyntheticFacades:
    return SyntheticFacades(split=split, seed=seed, n_samples=n_samples, height=height, width=width)


def _tensors(sample: Sample) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return sample.source, sample.maps["instances"], sample.maps["target"]


def _same(first: Sample, second: Sample) -> bool:
    return all(torch.equal(a, b) for a, b in zip(_tensors(first), _tensors(second), strict=True))


def test_a_sample_does_not_depend_on_those_read_before_or_on_how_many_there_are() -> None:
    used = _facades(n_samples=10)
    for index in range(9):
        used.read(index)
    assert _same(used.read(9), _facades(n_samples=1000).read(9))


def test_splits_indices_and_seeds_differ() -> None:
    others = [
        _facades(split="val").read(0),
        _facades(split="test").read(0),
        _facades().read(1),
        _facades(seed=1).read(0),
    ]
    assert not any(_same(_facades().read(0), other) for other in others)


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_shapes_dtypes_and_ranges(height: int, width: int) -> None:
    dataset = _facades(height=height, width=width)
    for index in range(2):
        labels, instances, photo = _tensors(dataset.read(index))
        assert (labels.shape, labels.dtype) == ((1, height, width), torch.uint8)
        assert (instances.shape, instances.dtype) == ((1, height, width), torch.int32)
        assert (photo.shape, photo.dtype) == ((3, height, width), torch.uint8)
        assert int(labels.max()) < dataset.n_classes
        assert int(instances.min()) >= 0
        assert photo.is_contiguous()
        assert float(photo.float().std()) > 20


def test_data_has_not_changed() -> None:
    labels, instances, photo = _tensors(_facades(n_samples=1, height=128, width=128).read(0))
    areas = torch.bincount(labels.flatten().long(), minlength=len(CLASS_COLORS))
    quarters = photo.double().unfold(1, 64, 64).unfold(2, 64, 64).mean((-1, -2))
    assert areas.tolist() == PINNED_AREAS
    assert int(instances.max()) == PINNED_LAST_INSTANCE
    torch.testing.assert_close(quarters, torch.tensor(PINNED_QUARTERS, dtype=torch.float64), rtol=0, atol=0.5)


def _day_night(split: str, direction: str = "AtoB") -> Layout:
    sizes = {"synthetic_samples": [3, 2, 2], "synthetic_size": [64, 64]}
    return SyntheticDayNight.open(split, direction=direction, seed=0, **sizes)


def test_no_house_is_on_both_sides_of_the_training_split() -> None:
    day, night = _day_night("train").sides
    assert len(day.names) == len(night.names) == 3
    assert not set(day.names) & set(night.names)
    assert day.read(0).target is None
    for index in range(3):
        assert torch.equal(day.read(index).source, _tensors(_facades().read(index))[2])
    assert len({light.provenance(0).rule for light in (day, night)}) == 2


@pytest.mark.parametrize("split", ["val", "test"])
def test_other_splits_have_each_house_in_both_lights(split: str) -> None:
    there, back = (_day_night(split, direction).read(1) for direction in ("AtoB", "BtoA"))
    assert torch.equal(there.source, _tensors(_facades(split=split).read(1))[2])
    assert torch.equal(there.maps["target"], back.source)
    assert torch.equal(there.source, back.maps["target"])
    assert there.maps["target"].double().mean() < 0.9 * there.source.double().mean()
