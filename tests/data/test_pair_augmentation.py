from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from data.batch import Sample
from data.facades.dataset import SyntheticFacades
from data.loader import SampleKey, TrainingDataset, read_fixed
from data.pair_augmentation import PairAugmentation, Warp, Window
from data.preprocessing import place
from tests.batches import CROPS
from tests.runs import assert_equal
from utils.limits import MOST_ELASTIC

ALL = PairAugmentation(rotation_degrees=[-20, 20], scale=[0.7, 1.4], elastic=[0, 0.1], quarter_turns=True)
PLAIN = replace(CROPS, crop_height=48, crop_width=48)
AUGMENTED = replace(PLAIN, augmentation=ALL)
FACADES = SyntheticFacades(split="train", seed=0, n_samples=5, height=64, width=96)
TYPES = pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32])


@pytest.mark.parametrize("height", [48, 32])
def test_all_maps_are_warped_and_turned_alike(height: int) -> None:
    """The maps hold smooth functions of the place, so the others follow from the source."""
    row, column = torch.meshgrid(torch.arange(64), torch.arange(96), indexing="ij")
    ids = (row // 8 * 12 + column // 8)[None]
    sample = Sample(
        "s",
        source=ids.to(torch.uint8),
        instances=ids.to(torch.int32) + 2**30,
        target=torch.stack([row * 3, column * 2, row + column]).to(torch.uint8),
        features=ids.expand(3, -1, -1).to(torch.uint8),
    )
    seen = set()
    for seed in range(12):
        placement = replace(AUGMENTED, crop_height=height).draw(sample, np.random.default_rng(seed))
        placed = place(sample, placement, source_is_ids=True)
        assert placed.maps["target"].shape == (3, height, 48)
        assert torch.equal(placed.source.int() + 2**30, placed.maps["instances"])
        assert torch.equal(placed.maps["features"], placed.source.expand(3, -1, -1))
        of_target = placed.maps["target"][0] // 3 // 8 * 12 + placed.maps["target"][1] // 2 // 8
        assert float((of_target == placed.source[0]).float().mean()) > 0.85  # except at the borders of squares
        assert placement.change
        seen.add(placement.change.n_quarter_turns)
    assert seen == ({0, 1, 2, 3} if height == 48 else {0, 2})


def test_a_draw_depends_on_seed_epoch_and_index_and_validation_has_none() -> None:
    keys = [(0, 0), (0, 0), (0, 1), (1, 0)]  # seeds and epochs
    drawn = [vars(TrainingDataset(FACADES, AUGMENTED, seed)[SampleKey(epoch, 2)]) for seed, epoch in keys]
    assert [torch.equal(drawn[0]["source"], other["source"]) for other in drawn[1:]] == [True, False, False]
    assert_equal(vars(read_fixed(FACADES, AUGMENTED, 1)), vars(read_fixed(FACADES, PLAIN, 1)))


def test_the_number_of_threads_changes_nothing() -> None:
    large = replace(AUGMENTED, mode="resize_and_crop", load_height=512, load_width=512, crop_height=384, crop_width=384)
    dataset = TrainingDataset(FACADES, large, 0)
    n_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        several = vars(dataset[SampleKey(0, 0)])
    finally:
        torch.set_num_threads(n_threads)
    assert_equal(vars(dataset[SampleKey(0, 0)]), several)


@pytest.mark.parametrize(("scale", "expected"), [([0.5, 2], 0.5), ([1.5, 1.5], 1.0), ([0.5, 1], 0.0)])
def test_enlarging_is_as_likely_as_its_inverse(scale: list[float], expected: float) -> None:
    rng, augmentation = np.random.default_rng(0), PairAugmentation(scale=scale)
    warps = [augmentation.draw(8, 8, rng).warp for _ in range(400)]
    assert np.mean([warp is not None and warp.inverse[0][0] < 1 for warp in warps]) == pytest.approx(expected, abs=0.08)


def picture(dtype: torch.dtype, *size: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(20, 200, size, dtype=np.uint8)).to(dtype)


def around(image: Tensor) -> Window:
    return (0, 0, *image.shape[-2:])


def reflected(image: Tensor) -> Tensor:
    """Nine copies. The copies around the middle are reflections."""
    whole = torch.cat([image.flip(-1), image, image.flip(-1)], dim=2)
    return torch.cat([whole.flip(-2), whole, whole.flip(-2)], dim=1)


@pytest.mark.parametrize(("turns", "degrees"), [(0, 0), (1, 90), (2, 180), (3, -90)])
def test_rotation_is_counter_clockwise_and_right_angles_are_exact(turns: int, degrees: float) -> None:
    image = picture(torch.uint8, 3, 32, 32)
    warp = Warp.of(degrees, 1)
    for read in (warp.image, warp.ids):
        assert torch.equal(read(image, around(image)), image.rot90(turns, (-2, -1)))


@TYPES
def test_beyond_its_borders_an_image_continues_as_its_reflection(dtype: torch.dtype) -> None:
    image = picture(dtype, 3, 8, 12)
    warp = Warp.of(0, 1)
    for read in (warp.image, warp.ids):
        torch.testing.assert_close(read(image, (-8, -12, 24, 36)), reflected(image), rtol=0, atol=1e-3)
    turned = Warp.of(20, 0.8)
    expected = turned.image(reflected(image), (8, 12, 8, 12)).float()
    assert (turned.image(image, around(image)).float() - expected).abs().max() <= 1


@TYPES
def test_images_keep_their_types_channels_ranges_and_sharpness(dtype: torch.dtype) -> None:
    image = picture(dtype, 4, 64, 64)
    image[1] = (image[1].int() // 100).to(dtype)
    elastic = PairAugmentation(elastic=[0.1, 0.1]).draw(64, 64, np.random.default_rng(0)).warp
    assert elastic
    for read in (elastic.image, elastic.ids):
        found = read(image, around(image))
        assert (found.shape, found.dtype) == (image.shape, dtype)
        assert (found.float().amin((1, 2)) >= image.float().amin((1, 2))).all()
        assert (found.float().amax((1, 2)) <= image.float().amax((1, 2))).all()
    half = replace(Warp.of(0, 1), controls=torch.full((2, 4, 4), 0.5 / 64)).image(image, around(image))
    bilinear = torch.nn.functional.avg_pool2d(image.float(), 2, stride=1)
    assert half.float().diff().abs().mean() > 1.2 * bilinear.diff().abs().mean()


def test_elastic_deformations_are_bounded_and_do_not_fold() -> None:
    size = (65, 80)
    y, x = (torch.arange(float(side)) for side in size)
    places = torch.stack(torch.meshgrid(x, y, indexing="xy"))
    inside = slice(12, -12), slice(12, -12)  # nothing is reflected there
    for seed in range(5):
        augmentation = PairAugmentation(elastic=[MOST_ELASTIC, MOST_ELASTIC])
        warp = augmentation.draw(*size, np.random.default_rng(seed)).warp
        assert warp
        moved = warp.image(places, (0, 0, *size)) - places
        assert 0.02 < float(moved[:, *inside].abs().max()) / min(size) <= MOST_ELASTIC
        x, y = (moved + places)[:, *inside]
        area = x.diff(dim=1)[:-1] * y.diff(dim=0)[:, :-1] - x.diff(dim=0)[:, :-1] * y.diff(dim=1)[:-1]
        assert float(area.min()) > 0


def test_what_weighs_nothing_has_no_part_in_what_weighs() -> None:
    target = torch.arange(100.0, 300.0, 5.0).expand(1, 40, 40).clone()
    complete, weights = target.clone(), torch.ones(1, 40, 40)
    weights[..., 12:15, 20:22], target[..., 12:15, 20:22] = 0, 100  # missing values
    warp = Warp.of(25, 0.9)
    weighs = warp.weights(weights, around(weights))[0] > 0
    assert 0.3 < weighs.float().mean() < 0.9
    found, expected = (warp.image(image, around(image))[0] for image in (target, complete))
    assert (found - expected)[weighs].abs().max() < 1e-3


@TYPES
def test_a_warp_ignores_weights_beyond_the_borders(dtype: torch.dtype) -> None:
    weights = torch.full((1, 20, 20), 9, dtype=dtype)
    read = Warp.of(0, 0.5).weights(weights, around(weights))
    assert read.dtype == dtype
    assert (read.float().sum(), read[..., 5:15, 5:15].float().min()) == (900, 9)  # 10 x 10 pixels of 9
