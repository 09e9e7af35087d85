import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from data.batch import Sample
from data.facades.canvas import FacadeClass
from data.facades.dataset import SyntheticFacades
from data.facades.geometry import draw_layout
from data.facades.painting import paint
from data.facades.renderer import CLASS_COLORS, CLASS_NAMES, Facade, render_facade

SIZES = [(64, 64), (128, 128), (96, 160), (101, 77), (256, 512), (32, 320), (320, 32)]

# Pixels per class, highest instance id, and the mean of each quarter of the photo per channel, of one sample.
PINNED_AREAS = [5556, 3979, 0, 1040, 350, 0, 242, 984, 2240, 0, 79, 1914]
PINNED_LAST_INSTANCE = 19
PINNED_QUARTERS = [
    [[155.6, 145.2], [156.3, 148.6]],
    [[163.3, 158.5], [133.2, 128.9]],
    [[172.4, 171.8], [116.5, 116.9]],
]


def _facades(
    *, split: str = "train", seed: int = 0, n_samples: int = 20, height: int = 64, width: int = 64
) -> SyntheticFacades:
    return SyntheticFacades(split=split, seed=seed, n_samples=n_samples, height=height, width=width)


def _tensors(sample: Sample) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    assert sample.instances is not None
    assert sample.target is not None
    return sample.source, sample.instances, sample.target


def _same(first: Sample, second: Sample) -> bool:
    return all(torch.equal(a, b) for a, b in zip(_tensors(first), _tensors(second), strict=True))


@pytest.fixture(scope="module")
def facades() -> list[Facade]:
    return [render_facade(np.random.default_rng([9, index]), 128, 128) for index in range(40)]


def test_reading_a_sample_twice_gives_the_same_bytes() -> None:
    assert _same(_facades().read(7), _facades().read(7))


def test_a_sample_does_not_depend_on_those_read_before_or_on_how_many_there_are() -> None:
    used = _facades(n_samples=10)
    for index in range(9):
        used.read(index)
    assert _same(used.read(9), _facades(n_samples=1000).read(9))


@pytest.mark.parametrize("split", ["val", "test"])
def test_splits_differ(split: str) -> None:
    assert not _same(_facades().read(0), _facades(split=split).read(0))


def test_indices_and_seeds_differ() -> None:
    first = _facades().read(0)
    assert not _same(first, _facades().read(1))
    assert not _same(first, _facades(seed=1).read(0))


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_shapes_dtypes_and_ranges(height: int, width: int) -> None:
    dataset = _facades(height=height, width=width)
    for index in range(3):
        labels, instances, photo = _tensors(dataset.read(index))
        assert (labels.shape, labels.dtype) == ((1, height, width), torch.uint8)
        assert (instances.shape, instances.dtype) == ((1, height, width), torch.int32)
        assert (photo.shape, photo.dtype) == ((3, height, width), torch.uint8)
        assert int(labels.max()) < dataset.n_classes
        assert int(instances.min()) >= 0
        assert photo.is_contiguous()
        assert float(photo.float().std()) > 20


def test_names_are_unique_and_belong_to_the_samples() -> None:
    dataset = _facades(n_samples=13)
    assert len(dataset) == len(set(dataset.names)) == 13
    assert dataset.names[12] == dataset.read(12).name == "facade_00012"


@pytest.mark.parametrize("index", [20, -1])
def test_an_index_out_of_range_is_refused(index: int) -> None:
    with pytest.raises(IndexError, match="out of range for 20"):
        _facades(n_samples=20).read(index)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown split 'valid'"):
        _facades(split="valid")


@pytest.mark.parametrize(("argument", "value"), [("seed", -1), ("n_samples", 0), ("height", 31), ("width", 31)])
def test_impossible_numbers_are_refused(argument: str, value: int) -> None:
    numbers = {"seed": 0, "n_samples": 1, "height": 64, "width": 64, argument: value}
    with pytest.raises(ValueError, match=str(value)):
        SyntheticFacades(split="train", **numbers)


def test_every_class_has_a_name_a_colour_and_pixels(facades: list[Facade]) -> None:
    assert len(CLASS_NAMES) == len(set(CLASS_NAMES)) == len(np.unique(CLASS_COLORS, axis=0)) >= 8
    assert CLASS_COLORS.dtype == np.uint8
    seen = np.unique(np.concatenate([np.unique(facade.labels) for facade in facades]))
    assert seen.tolist() == list(range(len(CLASS_NAMES)))


def test_an_instance_lies_within_one_class(facades: list[Facade]) -> None:
    for facade in facades:
        pairs = np.unique(np.stack([facade.instances.ravel(), facade.labels.ravel()]), axis=1)
        assert len(np.unique(pairs[0])) == pairs.shape[1]


def test_windows_are_instances_apart_from_one_another(facades: list[Facade]) -> None:
    for facade in facades:
        is_window = facade.labels == FacadeClass.WINDOW
        assert len(np.unique(facade.instances[is_window])) >= 2
        for axis in (0, 1):
            both = is_window & np.roll(is_window, 1, axis)
            np.testing.assert_array_equal(
                facade.instances[both], np.roll(facade.instances, 1, axis)[both], err_msg="two windows touch"
            )


def test_layouts_vary(facades: list[Facade]) -> None:
    windows = {len(np.unique(facade.instances[facade.labels == FacadeClass.WINDOW])) for facade in facades}
    assert len(windows) >= 8
    fills_width = [bool((facade.labels[64] != FacadeClass.SKY).all()) for facade in facades]
    assert 5 < sum(fills_width) < 35


def test_what_a_surface_is_made_of_follows_from_its_class(facades: list[Facade]) -> None:
    kinds, colours = zip(
        *[
            (kind, facade.photo[facade.labels == kind].mean(axis=0))
            for facade in facades
            for kind in np.unique(facade.labels)
        ],
        strict=True,
    )
    kind_of, colour_of = np.array(kinds), np.stack(colours)
    centres = np.stack([colour_of[kind_of == kind].mean(axis=0) for kind in range(len(CLASS_NAMES))])
    nearest = np.linalg.norm(colour_of[:, None] - centres, axis=2).argmin(axis=1)
    assert (nearest == kind_of).mean() > 0.85
    assert centres[:, 2].argmax() == FacadeClass.SKY
    assert (centres[:, 0] - centres[:, 2]).argmax() == FacadeClass.WALL
    assert (2 * centres[:, 1] - centres[:, 0] - centres[:, 2]).argmax() == FacadeClass.PLANT


def test_light_varies_and_the_layout_does_not_depend_on_it() -> None:
    layout_rng, light_rng, other_light_rng = np.random.default_rng(4).spawn(3)
    layout = draw_layout(layout_rng, 128, 128)
    photo, other = (paint(rng, layout).astype(np.float64) for rng in (light_rng, other_light_rng))
    assert 3 < np.abs(photo - other).mean() < 30
    facade = render_facade(np.random.default_rng(4), 128, 128)
    np.testing.assert_array_equal(facade.labels, layout.labels)
    np.testing.assert_array_equal(facade.instances, layout.instances)
    np.testing.assert_array_equal(facade.photo, photo)


def test_most_of_the_variation_within_a_class_follows_from_the_layout() -> None:
    labels, photos, predictions = [], [], []
    for index in range(12):
        layout_rng, *lights = np.random.default_rng([2, index]).spawn(14)
        layout = draw_layout(layout_rng, 128, 128)
        photo, *others = (paint(light, layout).astype(np.float32) for light in lights)
        labels.append(layout.labels)
        photos.append(photo)
        predictions.append(np.median(np.stack(others), axis=0))
    truth = np.stack(photos)
    by_layout = np.abs(truth - np.stack(predictions)).mean()
    by_class = np.abs(truth - _best_constants(np.stack(labels), truth)).mean()
    assert by_layout / by_class < 0.5


def _best_constants(labels: NDArray[np.uint8], photos: NDArray[np.float32]) -> NDArray[np.float32]:
    medians = np.zeros((len(CLASS_NAMES), 3), np.float32)
    for kind in np.unique(labels):
        medians[kind] = np.median(photos[labels == kind], axis=0)
    return medians[labels]


def test_data_stays_what_it_was() -> None:
    labels, instances, photo = _tensors(_facades(n_samples=1, height=128, width=128).read(0))
    areas = torch.bincount(labels.flatten().long(), minlength=len(CLASS_NAMES))
    quarters = photo.double().unfold(1, 64, 64).unfold(2, 64, 64).mean((-1, -2))
    assert areas.tolist() == PINNED_AREAS
    assert int(instances.max()) == PINNED_LAST_INSTANCE
    torch.testing.assert_close(quarters, torch.tensor(PINNED_QUARTERS, dtype=torch.float64), rtol=0, atol=0.5)
