import pytest
import torch

from data.batch import Sample
from data.facades.dataset import SyntheticFacades
from data.facades.day_night import SyntheticDayNight
from data.layout import Layout

SIZES = {"train_samples": 3, "val_samples": 2, "test_samples": 2, "height": 64, "width": 64, "seed": 0}


def opened(split: str, direction: str = "AtoB") -> Layout:
    return SyntheticDayNight.open(split, direction=direction, **SIZES)


def images(sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
    assert sample.target is not None
    return sample.source, sample.target


def test_no_house_is_on_both_sides_of_the_training_split() -> None:
    day, night = opened("train").sides
    assert len(day.names) == len(night.names) == 3
    assert not set(day.names) & set(night.names)
    assert day.read(0).target is None
    facades = SyntheticFacades(split="train", seed=0, n_samples=3, height=64, width=64)
    for index in range(3):
        assert torch.equal(day.read(index).source, images(facades.read(index))[1])
    assert len({light.provenance(0).rule for light in (day, night)}) == 2


@pytest.mark.parametrize("split", ["val", "test"])
def test_other_splits_have_each_house_in_both_lights(split: str) -> None:
    there, back = opened(split), opened(split, "BtoA")
    facades = SyntheticFacades(split=split, seed=0, n_samples=2, height=64, width=64)
    for index in range(2):
        day, night = images(there.read(index))
        assert torch.equal(day, images(facades.read(index))[1])
        assert all(map(torch.equal, (night, day), images(back.read(index))))
        assert night.double().mean() < 0.9 * day.double().mean()
