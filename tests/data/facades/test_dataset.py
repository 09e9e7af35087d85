import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from data.batch import Sample
from data.facades.dataset import HouseFront, SyntheticDayNight, SyntheticFacades
from data.facades.painting import CLASS_COLORS, Canvas, _cells
from data.layout import Layout

IDS = {name: number for number, name in enumerate(CLASS_COLORS)}


def _facades(
    *, split: str = "train", seed: int = 0, n_samples: int = 20, height: int = 64, width: int = 64
) -> SyntheticFacades:
    return SyntheticFacades(split=split, seed=seed, n_samples=n_samples, height=height, width=width)


def _house(number: int, appearance: int = 0) -> Canvas:
    canvas = Canvas(np.random.default_rng([1, appearance]), 128, 128)
    HouseFront(np.random.default_rng([9, number]), canvas).draw()
    return canvas


@pytest.fixture(scope="module")
def houses() -> list[Canvas]:
    return [_house(number) for number in range(12)]


def _same(first: Sample, second: Sample) -> bool:
    return all(torch.equal(tensor, second.maps[name]) for name, tensor in first.maps.items())


def test_sample_does_not_depend_on_earlier_reads_or_on_n_samples() -> None:
    used = _facades(n_samples=10)
    for index in range(9):
        used.read(index)
    assert _same(used.read(9), _facades(n_samples=1000).read(9))


def test_splits_indices_and_seeds_differ() -> None:
    others = [(_facades(split="val"), 0), (_facades(split="test"), 0), (_facades(), 1), (_facades(seed=1), 0)]
    first = _facades().read(0)
    assert not any(_same(first, other.read(index)) for other, index in others)
    keys = [_facades().provenance(0).key(), *(other.provenance(index).key() for other, index in others)]
    assert len(set(keys)) == 5


@pytest.mark.parametrize(("height", "width"), [(101, 77), (32, 320)])
def test_shapes_dtypes_and_ranges(height: int, width: int) -> None:
    dataset = _facades(height=height, width=width)
    labels, instances, photo = dataset.read(1).maps.values()
    assert (labels.shape, labels.dtype) == ((1, height, width), torch.uint8)
    assert (instances.shape, instances.dtype) == ((1, height, width), torch.int32)
    assert (photo.shape, photo.dtype) == ((3, height, width), torch.uint8)
    assert int(instances.min()) >= 0
    assert photo.is_contiguous()


def _day_night(split: str, direction: str = "AtoB") -> Layout:
    sizes = {"synthetic_samples": [3, 2, 2], "synthetic_size": [64, 64]}
    return SyntheticDayNight.open(split, direction=direction, seed=0, **sizes)


def test_no_house_is_in_both_domains_of_the_training_split() -> None:
    day, night = _day_night("train").sides
    assert len(day.names) == len(night.names) == 3
    assert not set(day.names) & set(night.names)
    assert day.read(0).target is None
    for index in range(3):
        assert torch.equal(day.read(index).source, _facades().read(index).maps["target"])
    assert len({light.provenance(0).rule for light in (day, night)}) == 2


@pytest.mark.parametrize("split", ["val", "test"])
def test_other_splits_have_each_house_in_both_lights(split: str) -> None:
    there, back = (_day_night(split, direction).read(1) for direction in ("AtoB", "BtoA"))
    assert torch.equal(there.source, _facades(split=split).read(1).maps["target"])
    assert torch.equal(there.maps["target"], back.source)
    assert torch.equal(there.source, back.maps["target"])


def test_windows_are_separate_instances_of_one_class(houses: list[Canvas]) -> None:
    seen = np.unique(np.concatenate([np.unique(house.labels) for house in houses]))
    assert seen.tolist() == list(range(len(CLASS_COLORS)))
    for house in houses:
        pairs = np.unique(np.stack([house.instances.ravel(), house.labels.ravel()]), axis=1)
        assert len(np.unique(pairs[0])) == pairs.shape[1]
        is_window = house.labels == IDS["window"]
        assert len(np.unique(house.instances[is_window])) >= 2
        for axis in (0, 1):
            both = is_window & np.roll(is_window, 1, axis)
            np.testing.assert_array_equal(house.instances[both], np.roll(house.instances, 1, axis)[both])


@pytest.mark.parametrize("pixel", [8.0, 1.0, 0.3])
def test_cells_fill_a_grid_at_every_size_of_pixels(pixel: float) -> None:
    edges = np.minimum(pixel * np.arange(24 / pixel + 1.01), 24)
    place, _, cover = _cells(edges, 6, 1, np.zeros(1))
    assert cover.sum() == pytest.approx(4 * (23 / 4 - 1))  # four cells, and gaps of length 1 around them
    assert ((cover >= 0) & (cover <= pixel + 1e-9)).all()
    assert ((place >= 0) & (place < 1)).all()


def test_geometry_does_not_depend_on_the_appearance() -> None:
    first, other = _house(4), _house(4, appearance=1)
    np.testing.assert_array_equal(first.labels, other.labels)
    np.testing.assert_array_equal(first.instances, other.instances)
    assert 3 < np.abs(first.photo().astype(np.float64) - other.photo()).mean() < 30


def _mean_colours(*, is_night: bool) -> NDArray[np.float64]:
    """Return the mean colour of each class in each of 8 houses, (8, K, 3), NaN for a class that is missing."""
    colours = np.full((8, len(CLASS_COLORS), 3), np.nan)
    for number in range(8):
        house = _house(number, appearance=number)
        photo = house.photo(is_night=is_night)
        for label in np.unique(house.labels):
            colours[number, label] = photo[:, house.labels == label].mean(axis=1)
    return colours


def test_colour_follows_from_the_class() -> None:
    colours = _mean_colours(is_night=False)
    centres = np.nanmean(colours, axis=0)
    is_seen = ~np.isnan(colours[..., 0])
    distances = np.linalg.norm(colours[:, :, None] - centres, axis=3)
    nearest = np.nan_to_num(distances, nan=np.inf).argmin(axis=2)
    assert (nearest == np.arange(len(CLASS_COLORS)))[is_seen].mean() > 0.85
    assert centres[:, 2].argmax() == IDS["sky"]
    assert (centres[:, 0] - centres[:, 2]).argmax() == IDS["wall"]
    assert (2 * centres[:, 1] - centres[:, 0] - centres[:, 2]).argmax() == IDS["plant"]


def test_winter_night_has_dark_sky_lit_windows_and_snow_on_roofs() -> None:
    by_light = [np.nanmean(_mean_colours(is_night=is_night), axis=0) for is_night in (False, True)]
    day, night = (dict(zip(CLASS_COLORS, colours, strict=True)) for colours in by_light)
    assert night["sky"].mean() < 0.3 * day["sky"].mean()
    assert night["wall"].mean() < 0.5 * day["wall"].mean()
    assert night["window"][0] > 1.3 * night["window"][2]
    assert day["window"][2] > day["window"][0]
    assert night["roof"].mean() > 1.2 * day["roof"].mean()
