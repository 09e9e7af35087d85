"""A target of another size is cut, mirrored and warped to the same part of the picture as its source."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from data.batch import DataError, Sample
from data.conditioning import resize_condition
from data.facades.dataset import SyntheticFacades
from data.files.size_guard import pixels_allowed
from data.map_reader import MapReader
from data.pair_augmentation import PairAugmentation
from data.preprocessing import Mode, Preprocessing, place
from tests.conftest import save_image

SCALES = [0.25, 0.5, 2.0, 4.0]
TURNED = PairAugmentation(vertical_flip=True, quarter_turns=True)
SETTINGS = Preprocessing(
    mode="crop", load_height=32, load_width=48, crop_height=24, crop_width=24, flip=True, size_multiple=8, min_size=16
)


def ramp(height: int, width: int, scale: float) -> Tensor:
    """Values that are the same function of the place in the picture at each scale, (2, H, W) float32."""
    rows, columns = (torch.arange(round(side * scale)) for side in (height, width))
    axes = torch.meshgrid((rows + 0.5) / scale, (columns + 0.5) / scale, indexing="ij")
    return torch.stack(axes).float()


def sample_of(height: int, width: int, scale: float) -> Sample:
    return Sample("s", ramp(height, width, 1), None, ramp(height, width, scale))


def at_the_coarser(sample: Sample, scale: float) -> tuple[Tensor, Tensor]:
    """Source and target at the sides of the smaller one, by the mean of each block."""
    assert sample.target is not None
    means = [
        F.avg_pool2d(image, round(max(1, by))) for image, by in ((sample.source, 1 / scale), (sample.target, scale))
    ]
    return means[0], means[1]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("mode", get_args(Mode))
def test_every_draw_shows_both_the_same_place(scale: float, mode: Mode) -> None:
    settings = replace(SETTINGS, mode=mode, target_scale=scale)
    height, width = (32, 48) if mode in ("resize_and_crop", "scale_width", "scale_width_and_crop") else (40, 56)
    if mode not in ("scale_width", "none"):  # the others are not square
        settings = replace(settings, augmentation=TURNED)
    sample, seen = sample_of(height, width, scale), set()
    for seed in range(12):
        placed = place(sample, settings.draw(sample, np.random.default_rng(seed)), source_is_ids=False)
        source, target = at_the_coarser(placed, scale)
        assert placed.target is not None
        assert list(placed.target.shape[-2:]) == [side * scale for side in placed.source.shape[-2:]]
        assert torch.allclose(source, target, atol=1e-4)
        seen.add(placed.source.numpy().tobytes())
    assert len(seen) > (8 if mode not in ("scale_width", "none") else 1)


@pytest.mark.parametrize("scale", SCALES)
def test_a_warp_is_about_the_same_point(scale: float) -> None:
    warps = PairAugmentation(rotation_degrees=(-30, 30), scale=(0.9, 1.2), shear_degrees=(-10, 10), elastic=(0.0, 0.02))
    settings = replace(SETTINGS, augmentation=warps, target_scale=scale)
    sample = sample_of(96, 120, scale)
    for seed in range(6):
        placement = settings.draw(sample, np.random.default_rng(seed))
        source, target = at_the_coarser(place(sample, placement, source_is_ids=False), scale)
        inside = (source > 4) & (source < torch.tensor([92.0, 116.0]).view(2, 1, 1))  # away from reflections
        assert inside.float().mean() > 0.5
        assert (source - target)[inside].abs().max() < 0.2  # pixels of the source: an elastic warp is not linear


@pytest.mark.parametrize("scale", SCALES)
def test_whole_images_are_tested_at_the_same_place(scale: float) -> None:
    sample, tolerance = sample_of(44, 68, scale), 0.05 * max(1, 1 / scale)
    for mode in get_args(Mode):
        placed = place(sample, replace(SETTINGS, mode=mode, target_scale=scale).fixed(sample), source_is_ids=False)
        source, target = at_the_coarser(placed, scale)
        assert torch.allclose(
            source[:, 2:-2, 2:-2], target[:, 2:-2, 2:-2], atol=tolerance
        )  # resizing reflects at borders


def test_a_scale_of_1_draws_what_it_drew() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        placed = SETTINGS.draw(sample_of(40, 56, 1), np.random.default_rng(seed)).source
        drawn = (bool(rng.random() < 0.5), int(rng.integers(40 - 24 + 1)), int(rng.integers(56 - 24 + 1)))
        assert (placed.flip, placed.top, placed.left) == drawn
    assert SETTINGS.size_rule == "crop 32 48 8 16"
    assert replace(SETTINGS, target_scale=2.0).size_rule != SETTINGS.size_rule


def test_a_target_too_large_is_refused() -> None:
    sample = Sample("s", torch.zeros(3, 64, 64, dtype=torch.uint8), None, None)
    settings = replace(SETTINGS, mode="none")
    with pixels_allowed(200 * 200):
        settings.whole(sample)
    with pixels_allowed(200 * 200), pytest.raises(DataError, match=r"and its target 4 times as large: too large for"):
        replace(settings, target_scale=4.0).whole(sample)


@pytest.mark.parametrize("scale", SCALES)
def test_drawn_facades_have_both_sizes(scale: float) -> None:
    pair = SyntheticFacades(split="val", seed=1, n_samples=1, height=64, width=80, target_scale=scale).read(0)
    assert pair.target is not None
    assert pair.instances is not None
    assert pair.source.shape == pair.instances.shape == (1, 64, 80)
    assert pair.target.shape == (3, round(64 * scale), round(80 * scale))
    if scale > 1:
        fine = SyntheticFacades(split="val", seed=1, n_samples=1, height=round(64 * scale), width=round(80 * scale))
        assert fine.read(0).target is not None
        assert torch.equal(fine.read(0).target, pair.target)  # type: ignore[arg-type]


def test_facades_without_whole_pixels_are_refused() -> None:
    counts = {"train_samples": 1, "val_samples": 1, "test_samples": 1, "seed": 0}
    with pytest.raises(
        DataError, match=r"width x height is 34x32, expected multiples of 4 with generator\.scale=0\.25"
    ):
        SyntheticFacades.open("train", **counts, height=32, width=34, target_scale=0.25)


@pytest.mark.parametrize(
    ("scale", "size", "message"),
    [
        (
            4,
            (48, 64),
            r"a\.png is 16x12 but its partner .*b\.png is 48x64, expected 64x48 with .*=4: store smaller sources$",
        ),
        (
            4,
            (16, 12),
            r"b\.png is 16x12, expected 64x48 .*=4: store smaller sources, or train with generator\.scale=1$",
        ),
        (
            4,
            (32, 24),
            r"b\.png is 32x24, expected 64x48 .*=4: store smaller sources, or train with generator\.scale=2$",
        ),
        (
            0.5,
            (16, 12),
            r"b\.png is 16x12, expected 8x6 with generator\.scale=0\.5: store larger sources, or train with .*=1$",
        ),
        (4, (61, 45), r"b\.png is 61x45, expected 64x48 .*=4: cut targets to multiples of 4 pixels before you reduce"),
        (0.5, (9, 6), r"expected 8x6 with generator\.scale=0\.5: store larger sources$"),
        (0.125, (2, 1), r"expected 0\.125 times that, which is no whole number, with"),
        (1, (4, 3), r"b\.png is 4x3: make them the same size, or train with generator\.scale=0\.25$"),
        (1, (48, 36), r"b\.png is 48x36: make them the same size$"),
    ],
)
def test_pairs_of_other_sizes_are_named(tmp_path: Path, scale: float, size: tuple[int, int], message: str) -> None:
    paths = {"source": tmp_path / "a.png", "target": tmp_path / "b.png"}
    save_image(paths["source"], np.zeros((12, 16, 3), np.uint8))
    save_image(paths["target"], np.zeros((size[1], size[0], 3), np.uint8))
    with pytest.raises(DataError, match=message):
        MapReader(0, None, target_scale=scale).read("a", paths)


def test_a_condition_is_resized_by_its_kind() -> None:
    image, labels = torch.tensor([[[[0.0, 1.0]]]]), torch.tensor([[[[1.0, 0.0]]]])
    both = torch.cat([image, labels], dim=1)
    larger = resize_condition(both, 2.0, images=slice(1))
    assert larger[0, 0].tolist() == [[0.0, 0.25, 0.75, 1.0]] * 2
    assert larger[0, 1].tolist() == [[1.0, 1.0, 0.0, 0.0]] * 2
    assert resize_condition(larger, 0.5, images=slice(1))[0].tolist() == [[[0.125, 0.875]], [[1.0, 0.0]]]
    assert resize_condition(both, 1.0, images=slice(1)) is both
    assert resize_condition(labels, 4.0, images=slice(0)).shape == (1, 1, 4, 8)
    assert resize_condition(image, 4.0, images=slice(1)).shape == (1, 1, 4, 8)
