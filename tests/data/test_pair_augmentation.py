from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

from data.batch import Sample
from data.facades.dataset import SyntheticFacades
from data.layout import Layout, Provenance
from data.loader import SampleKey, TrainingDataset, read_fixed
from data.pair_augmentation import (
    NO_CHANGE,
    PairAugmentation,
    Photometric,
    Warp,
    affine_inverse,
    controls_of,
    ids_at,
    image_at,
    weights_at,
)
from data.preprocessing import place
from tests.batches import CROPS
from tests.runs import assert_equal
from utils.limits import MOST_ELASTIC

ALL = PairAugmentation(
    rotation_degrees=[-20, 20],
    scale=[0.7, 1.4],
    shear_degrees=[-10, 10],
    elastic=[0, 0.1],
    vertical_flip=True,
    quarter_turns=True,
    color=[0.6, 1.5],
    hue=[-0.1, 0.1],
    noise=[0, 0.05],
    jpeg_quality=[30, 90],
)
PLAIN = replace(CROPS, crop_height=48, crop_width=48)
AUGMENTED = replace(PLAIN, augmentation=ALL)
FACADES = SyntheticFacades(split="train", seed=0, n_samples=5, height=64, width=96)


class Pairs(Layout):
    """Photos of the facades as sources and as targets."""

    names = tuple(f"p{number}" for number in range(5))

    def provenance(self, index: int) -> Provenance:
        return Provenance(f"photo {index}")

    def read(self, index: int) -> Sample:
        photo = FACADES.read(index).target
        assert photo is not None
        return Sample(self.names[index], source=photo, target=photo)


IDENTITY = ((1.0, 0.0), (0.0, 1.0))
LABELS_AND_IMAGES = pytest.mark.parametrize("layout", [FACADES, Pairs()], ids=["labels", "images"])


def test_off_the_draws_are_those_without_it() -> None:
    sample = FACADES.read(0)
    for seed in range(5):
        rng, other = np.random.default_rng(seed), np.random.default_rng(seed)
        placement = PLAIN.draw(sample, rng)
        flip = bool(other.random() < 0.5)
        window = int(other.integers(64 - 48 + 1)), int(other.integers(96 - 48 + 1))
        assert (placement.flip, placement.top, placement.left, placement.change) == (flip, *window, NO_CHANGE)
        assert other.random() == rng.random()  # nothing else has been drawn
        augmented = AUGMENTED.draw(sample, np.random.default_rng(seed))
        assert replace(augmented, change=NO_CHANGE) == placement  # crop and mirroring stay


@pytest.mark.parametrize("height", [48, 32])
def test_all_maps_are_warped_and_turned_alike(height: int) -> None:
    """The maps hold smooth functions of the place: from the source follow the others."""
    row, column = torch.meshgrid(torch.arange(64), torch.arange(96), indexing="ij")
    ids = (row // 8 * 12 + column // 8)[None]
    rgb = torch.stack([row * 3, column * 2, row + column]).to(torch.uint8)
    sample = Sample(
        "s",
        source=ids.to(torch.uint8),
        instances=ids.to(torch.int32) + 2**24,
        target=rgb,
        features=ids.expand(3, -1, -1).to(torch.uint8),
    )
    seen = set()
    for seed in range(12):
        placement = replace(AUGMENTED, crop_height=height).draw(sample, np.random.default_rng(seed))
        placed = place(sample, placement, source_is_ids=True)
        assert placed.maps["target"].shape == (3, height, 48)
        assert torch.equal(placed.source.int() + 2**24, placed.maps["instances"])
        assert torch.equal(placed.maps["features"], placed.source.expand(3, -1, -1))
        of_target = placed.maps["target"][0] // 3 // 8 * 12 + placed.maps["target"][1] // 2 // 8
        assert float((of_target == placed.source[0]).float().mean()) > 0.85  # but at the borders of squares
        change = placement.change
        seen.add((change.n_quarter_turns, change.vertical_flip))
    assert {turns for turns, _ in seen} == ({0, 1, 2, 3} if height == 48 else {0, 2})
    assert {is_flipped for _, is_flipped in seen} == {False, True}


def test_only_the_source_changes_its_colors() -> None:
    colors = replace(PLAIN, augmentation=PairAugmentation(color=[0.5, 0.6], noise=[0.1, 0.1], jpeg_quality=[20, 20]))
    changed, expected = (vars(TrainingDataset(Pairs(), p, 0)[SampleKey(0, 1)]) for p in (colors, PLAIN))
    assert torch.equal(changed["target"], expected["target"])
    assert changed["source"].float().mean() < 0.8 * expected["source"].float().mean()


@LABELS_AND_IMAGES
def test_a_sample_for_validation_has_no_augmentation(layout: Layout) -> None:
    assert_equal(vars(read_fixed(layout, AUGMENTED, 1)), vars(read_fixed(layout, PLAIN, 1)))


@LABELS_AND_IMAGES
def test_a_draw_depends_on_seed_epoch_and_index_alone(layout: Layout) -> None:
    keys = [(0, 0), (0, 0), (0, 1), (1, 0)]  # seeds and epochs
    drawn = [vars(TrainingDataset(layout, AUGMENTED, seed)[SampleKey(epoch, 2)]) for seed, epoch in keys]
    assert [torch.equal(drawn[0]["source"], other["source"]) for other in drawn[1:]] == [True, False, False]


@LABELS_AND_IMAGES
def test_the_number_of_threads_changes_nothing(layout: Layout) -> None:
    large = replace(AUGMENTED, mode="resize_and_crop", load_height=512, load_width=512, crop_height=384, crop_width=384)
    dataset = TrainingDataset(layout, large, 0)
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


def picture(dtype: torch.dtype = torch.uint8, n_channels: int = 3) -> Tensor:
    levels = torch.from_numpy(np.random.default_rng(0).integers(20, 200, (n_channels, 24, 32), dtype=np.uint8))
    return levels.to(dtype)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32])
def test_the_neutral_draw_changes_nothing(dtype: torch.dtype) -> None:
    assert torch.equal(Photometric()(picture(dtype)), picture(dtype))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Photometric(brightness=0.7), lambda image: F.adjust_brightness(image, 0.7)),
        (Photometric(brightness=1.6), lambda image: F.adjust_brightness(image, 1.6)),
        (Photometric(saturation=0.3), lambda image: F.adjust_saturation(image, 0.3)),
        (Photometric(hue=0.2), lambda image: F.adjust_hue(image, 0.2)),
    ],
)
def test_colors_are_torchvisions(change: Photometric, expected: Callable[[Tensor], Tensor]) -> None:
    found = expected(picture().float() / 255) * 255
    assert (change(picture()).float() - found).abs().max() <= 0.51  # rounded once


def test_contrast_is_about_the_mean() -> None:
    image = picture()
    assert Photometric(contrast=0.0)(image).unique().tolist() == [round(float(image.double().mean()))]
    assert Photometric(contrast=1.5)(image).double().std() > image.double().std()


def test_noise_has_its_deviation_and_its_seed() -> None:
    image = torch.full((3, 100, 100), 128, dtype=torch.uint8)
    noisy, again, other = (Photometric(noise=0.05, noise_seed=seed)(image) for seed in (1, 1, 2))
    assert torch.equal(noisy, again)
    assert not torch.equal(noisy, other)
    assert not torch.equal(noisy[0], noisy[1])
    assert float(noisy.double().std()) == pytest.approx(0.05 * 255, rel=0.03)


def test_jpeg_is_of_its_quality() -> None:
    errors = [(Photometric(jpeg_quality=q)(picture()).int() - picture().int()).abs().sum() for q in (10, 50, 95)]
    assert errors[0] > errors[1] > errors[2] > 0


def test_the_image_that_is_given_stays() -> None:
    image = picture()
    Photometric(0.5, 1.5, 2.0, 0.1, 0.1, 0, 10)(image)
    assert torch.equal(image, picture())


@pytest.mark.parametrize(
    ("dtype", "n_channels"), [(torch.uint8, 1), (torch.uint8, 4), (torch.uint16, 3), (torch.float32, 3)]
)
def test_other_images_have_brightness_contrast_and_noise(dtype: torch.dtype, n_channels: int) -> None:
    image = picture(dtype, n_channels)
    found = Photometric(brightness=0.8, contrast=0.9, noise=0.02, hue=0.3, jpeg_quality=5)(image)
    assert (found.dtype, found.shape) == (image.dtype, image.shape)
    assert not torch.equal(found, image)
    assert torch.equal(found, Photometric(brightness=0.8, contrast=0.9, noise=0.02)(image))  # neither hue nor JPEG
    if dtype != torch.uint8:
        levels = image.float()
        assert levels.min() <= found.float().min() < found.float().max() <= levels.max() + 1e-3


def test_a_constant_image_of_floats_stays_finite() -> None:
    found = Photometric(brightness=1.2, contrast=0.8, noise=0.1)(torch.full((1, 8, 8), 3.5))
    assert torch.equal(found, torch.full((1, 8, 8), 3.5))


def positions(warp: Warp, height: int, width: int) -> Tensor:
    return warp.positions(height, width) + torch.tensor([width / 2, height / 2])[:, None, None]


def elastic(height: int, width: int, share: float, seed: int = 0) -> Warp:
    controls = np.random.default_rng(seed).uniform(-share, share, (2, *controls_of(height, width)))
    return Warp(IDENTITY, torch.from_numpy(controls).float())


def photo(height: int, width: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, height, width), dtype=np.uint8))


def test_nothing_drawn_changes_nothing() -> None:
    image = photo(24, 40)
    where = positions(Warp(affine_inverse(0, 1, 0)), 24, 40)
    assert torch.equal(image_at(image, where), image)
    assert torch.equal(ids_at(image, where), image)


@pytest.mark.parametrize(("turns", "degrees"), [(1, 90), (2, 180), (3, -90)])
def test_rotation_is_counter_clockwise(turns: int, degrees: float) -> None:
    image = photo(32, 32)
    where = positions(Warp(affine_inverse(degrees, 1, 0)), 32, 32)
    assert torch.equal(image_at(image, where), image.rot90(turns, (-2, -1)))


@pytest.mark.parametrize(
    ("rotation", "scale", "shear"), [(17, 1, 0), (0, 1.3, 0), (0, 0.7, 0), (0, 1, 12), (-33, 1.2, 0), (30, 1.5, 10)]
)
def test_the_inside_is_as_torchvisions_affine(rotation: float, scale: float, shear: float) -> None:
    rows, columns = torch.arange(64.0)[:, None] / 20, torch.arange(64.0) / 25
    waves = [torch.sin(columns + rows), torch.cos(columns - rows), torch.sin(columns) * torch.cos(rows)]
    image = 128 + 120 * torch.stack(waves)  # smooth: bilinear is nearly bicubic
    where = positions(Warp(affine_inverse(rotation, scale, shear)), 64, 64)
    expected = F.affine(
        image, -rotation, [0, 0], scale, [-shear, 0], interpolation=InterpolationMode.BILINEAR
    )  # whose angles are clockwise
    inside = ((where > 1) & (where < 63)).all(0)
    assert inside.float().mean() > 0.45
    assert (image_at(image, where) - expected).abs()[:, inside].max() < 1


def test_beyond_its_borders_an_image_continues_as_its_reflection() -> None:
    image = photo(8, 12)
    whole = torch.cat([image.flip(-1), image, image.flip(-1)], dim=2)
    whole = torch.cat([whole.flip(-2), whole, whole.flip(-2)], dim=1)
    where = torch.stack(torch.meshgrid(torch.arange(36) - 11.5, torch.arange(24) - 7.5, indexing="xy"))
    for read in (image_at, ids_at):
        assert torch.equal(read(image, where), whole)
    far = where + torch.tensor([24 * 5, -16 * 3])[:, None, None]  # whole periods
    assert torch.equal(ids_at(image, far), whole)


@pytest.mark.parametrize("size", [(16, 16), (1, 12), (3, 2)])
def test_at_a_border_an_image_mixes_with_its_reflection(size: tuple[int, int]) -> None:
    height, width = size
    image = photo(*size).float()
    whole = torch.cat([image.flip(-1), image, image.flip(-1)], dim=2)
    whole = torch.cat([whole.flip(-2), whole, whole.flip(-2)], dim=1)
    where = positions(Warp(affine_inverse(20, 0.8, 0)), *size)
    shift = torch.tensor([width, height])[:, None, None]
    torch.testing.assert_close(image_at(image, where), image_at(whole, where + shift), rtol=1e-4, atol=0.01)


def test_a_part_of_a_reading_is_that_part_of_the_whole() -> None:
    image = photo(40, 50).float()
    image[:, :5], image[0, 0, 0] = image[:, :5] * 100, -9000  # which the part does not see
    where = positions(Warp(affine_inverse(10, 1.1, 0)), 40, 50)
    part = image_at(image, where[:, 20:30, 10:30])
    torch.testing.assert_close(part, image_at(image, where)[:, 20:30, 10:30], rtol=1e-4, atol=0.01)


def test_each_channel_stays_within_its_own_range() -> None:
    image = photo(20, 20).float() * torch.tensor([1.0, 0.01, -30.0])[:, None, None]
    read = image_at(image, positions(Warp(affine_inverse(10, 1.1, 0)), 20, 20))
    assert (read.amin((1, 2)) >= image.amin((1, 2))).all()
    assert (read.amax((1, 2)) <= image.amax((1, 2))).all()


def test_between_pixels_an_image_keeps_its_sharpness_and_its_range() -> None:
    image = photo(64, 64).float()
    where = positions(Warp(IDENTITY), 64, 64) + torch.tensor([0.5, 0])[:, None, None]
    read, bilinear = image_at(image, where)[..., :-1], (image[..., :-1] + image[..., 1:]) / 2
    assert (read.min(), read.max()) == (image.min(), image.max())
    assert read.diff().abs().mean() > 1.2 * bilinear.diff().abs().mean()


@pytest.mark.parametrize("size", [(64, 64), (48, 96), (33, 50)])
def test_controls_that_are_equal_shift_and_no_displacement_is_larger(size: tuple[int, int]) -> None:
    shift = Warp(IDENTITY, torch.full((2, *controls_of(*size)), 0.1))
    moved = shift.positions(*size) - Warp(IDENTITY).positions(*size)
    torch.testing.assert_close(moved, torch.full_like(moved, 0.1 * min(size)))
    drawn = elastic(*size, 0.1).positions(*size) - Warp(IDENTITY).positions(*size)
    assert 0.02 * min(size) < float(drawn.abs().max()) <= 0.1 * min(size)


@pytest.mark.parametrize("seed", range(5))
def test_no_deformation_folds(seed: int) -> None:
    x, y = elastic(96, 128, MOST_ELASTIC, seed).positions(96, 128)
    area = x.diff(dim=1)[:-1] * y.diff(dim=0)[:, :-1] - x.diff(dim=0)[:, :-1] * y.diff(dim=1)[:-1]
    assert float(area.min()) > 0


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32])
@pytest.mark.parametrize("n_channels", [1, 4])
def test_images_of_any_channels_and_types_keep_theirs(dtype: torch.dtype, n_channels: int) -> None:
    image = (torch.arange(20 * 30) % 251).reshape(1, 20, 30).expand(n_channels, -1, -1).to(dtype)
    for read in (image_at, ids_at):
        found = read(image, positions(elastic(20, 30, 0.1), 20, 30))
        assert (found.shape, found.dtype) == (image.shape, dtype)
        assert torch.equal(found.float()[0], found.float()[-1])


def test_what_weighs_nothing_has_no_part_in_what_weighs() -> None:
    target = torch.arange(100.0, 300.0, 5.0).expand(1, 40, 40).clone()
    weights = torch.ones(1, 40, 40)
    weights[..., 12:15, 20:22] = target[..., 12:15, 20:22] = 0  # missing values
    where = positions(Warp(affine_inverse(25, 0.9, 0)), 40, 40)
    expected = 100 + 5 * (where[0] - 0.5)
    inside = ((where > 3) & (where < 37)).all(0) & (weights_at(weights, where)[0] > 0)
    assert 0.3 < inside.float().mean() < 0.9
    assert (image_at(target, where)[0] - expected)[inside].abs().max() < 0.3  # torch's bicubic is 0.05 pixels off


def test_a_weight_beside_a_larger_one_stays() -> None:
    weights = torch.tensor([[[1.0, 1.0, 1.0, 100.0, 100.0, 1.0]]]).expand(1, 6, 6)
    read = weights_at(weights, positions(Warp(affine_inverse(0, 1.2, 0)), 6, 6))
    assert read.min() == 1


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32])
def test_a_warp_ignores_weights_beyond_the_borders(dtype: torch.dtype) -> None:
    weights = torch.full((1, 20, 20), 9, dtype=dtype)
    half_size = Warp(affine_inverse(0, 0.5, 0)).positions(20, 20) + 10
    read = weights_at(weights, half_size)
    assert read.dtype == dtype
    assert (read.float().sum(), read[..., 5:15, 5:15].float().min()) == (900, 9)  # 10 x 10 pixels of 9
