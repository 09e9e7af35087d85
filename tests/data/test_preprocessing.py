"""Crops and mirroring: all maps of a sample show the same place. Pixels without data."""

import math
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from data.batch import DataError, Sample
from data.files.stored_image import pixels_allowed
from data.pair_augmentation import PairAugmentation
from data.preprocessing import (
    LeastSide,
    Mode,
    Placement,
    Preprocessing,
    filled,
    missing_pixels,
    no_data,
    place,
    resize_image,
)
from tests.images import tifffile

SETTINGS = Preprocessing(
    mode="none", load_height=48, load_width=96, crop_height=32, crop_width=64, flip=True, size_multiple=8, min_size=16
)
SMALL = replace(SETTINGS, mode="crop", load_height=32, load_width=48, crop_height=24, crop_width=24)
TURNED = PairAugmentation(quarter_turns=True)
SCALES = pytest.mark.parametrize("scale", [0.25, 2.0])
MODES: tuple[Mode, ...] = get_args(Mode)
STORED = pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32])


def whole(height: int, width: int) -> Placement:
    return Placement(height, width, 0, 0, height, width, flip=False)


def coordinate_sample(height: int, width: int) -> Sample:
    """A sample whose maps hold the column of each pixel, so that maps cropped alike stay equal."""
    columns = torch.arange(width).expand(1, height, width)
    rgb = columns.expand(3, -1, -1).to(torch.uint8)
    return Sample("s", source=columns.to(torch.uint8), instances=columns.to(torch.int32), target=rgb)


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_gives_its_size_and_tests_at_multiples(mode: Mode) -> None:
    size = {"scale_width": (48, 96), "none": (64, 120)}.get(mode, (32, 64))
    sample = coordinate_sample(60, 120)  # 60 is no multiple of 8; 96 wide it is 48 high
    settings = replace(SETTINGS, mode=mode)
    for seed in range(5):
        placed = place(sample, settings.draw(sample, np.random.default_rng(seed)), source_is_ids=True)
        assert placed.source.shape[-2:] == placed.maps["target"].shape[-2:] == size
    fixed = settings.fixed(coordinate_sample(61, 125))
    assert (fixed.crop_height % 8, fixed.crop_width % 8, fixed.flip) == (0, 0, False)
    tiny = SETTINGS.fixed(coordinate_sample(1, 3))  # enlarged to the smallest size of the generator
    assert (tiny.height, tiny.width) == (16, 16)


def test_a_sample_that_is_too_small_for_training_is_refused_but_may_be_translated() -> None:
    sample, rng = coordinate_sample(15, 120), np.random.default_rng(0)
    settings = replace(SETTINGS, mode="scale_width", least=LeastSide(24, "discriminator.n_layers=3"))
    with pytest.raises(DataError, match=r"s is 120x15, .*data\.preprocess=scale_width .*96x16, but discr"):
        settings.draw(sample, rng)
    assert settings.fixed(sample).crop_height == 16
    assert replace(settings, least=LeastSide(16, "")).draw(sample, rng).crop_height == 16


def test_images_are_interpolated_where_labels_are_not() -> None:
    labels = torch.tensor([[[0, 0, 2, 2]]], dtype=torch.uint8)
    sample = Sample("x", source=labels, source_images=labels.float() * 100)
    placed = place(sample, replace(whole(1, 3), flip=True), source_is_ids=True)
    assert set(placed.source.unique().tolist()) <= {0, 2}
    right, middle, left = placed.maps["source_images"][0, 0].tolist()  # mirrored
    assert 0 < middle < 200
    assert left < right


@STORED
def test_weights_are_placed_as_the_target_is(dtype: torch.dtype) -> None:
    levels = torch.arange(48).view(1, 6, 8)
    target = levels.expand(3, -1, -1).byte()
    sample = Sample("x", source=target[:, ::2, ::2], target=target, weights=levels.to(dtype))
    placed = place(sample, Placement(3, 4, 0, 1, 2, 2, flip=True, target_scale=2.0), source_is_ids=False)
    assert placed.maps["weights"].dtype == dtype
    assert torch.equal(placed.maps["weights"].int(), placed.maps["target"][:1].int())


@STORED
@pytest.mark.parametrize("side", [8, 40])
def test_resized_weights_neither_overshoot_nor_change_plain_parts(dtype: torch.dtype, side: int) -> None:
    weights = torch.zeros(1, 16, 16, dtype=dtype)
    weights[..., 8:] = 200
    resized = whole(side, side).weights(weights).float()
    assert (resized.min(), resized.max()) == (0, 200)
    assert resized[..., : side // 2 - 3].max() == 0
    assert resized[..., side // 2 + 3 :].min() == 200


def test_ids_are_resized_like_pillows_nearest_and_exactly() -> None:
    ids = np.random.default_rng(0).integers(0, 2**31 - 1, (37, 53), dtype=np.int32)
    for height, width in ((20, 20), (64, 100), (37, 60)):
        expected = np.asarray(Image.fromarray(ids).resize((width, height), Image.Resampling.NEAREST))
        assert np.array_equal(whole(height, width).ids(torch.from_numpy(ids)[None])[0].numpy(), expected)


def test_images_are_resized_like_pillows_bicubic() -> None:
    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    expected = np.asarray(Image.fromarray(image).resize((32, 24), Image.Resampling.BICUBIC)).astype(int)
    resized = whole(24, 32).image(torch.from_numpy(image).permute(2, 0, 1))
    assert np.abs(resized.permute(1, 2, 0).numpy().astype(int) - expected).max() <= 1


@pytest.mark.parametrize("dtype", [torch.uint16, torch.int16, torch.float32])
def test_resizing_keeps_type_and_range(dtype: torch.dtype) -> None:
    step = torch.zeros(1, 20, 20)
    step[..., 10:] = 30000
    resized = resize_image(step.to(dtype), 45, 47)
    assert (resized.shape, resized.dtype) == ((1, 45, 47), dtype)
    assert (float(resized.float().min()), float(resized.float().max())) == (0, 30000)


def test_a_target_too_large_is_refused() -> None:
    sample = Sample("s", source=torch.zeros(3, 64, 64, dtype=torch.uint8))
    with pixels_allowed(200 * 200):
        SETTINGS.whole(sample)
        with pytest.raises(DataError, match=r"with a target 4 times as large: too large for"):
            replace(SETTINGS, target_scale=4.0).whole(sample)


def ramp(height: int, width: int, scale: float) -> Tensor:
    """Values that are the same function of the place in the picture at each scale, (2, H, W) float32."""
    rows, columns = (torch.arange(round(side * scale)) for side in (height, width))
    return torch.stack(torch.meshgrid((rows + 0.5) / scale, (columns + 0.5) / scale, indexing="ij")).float()


def sample_of(height: int, width: int, scale: float) -> Sample:
    return Sample("s", source=ramp(height, width, 1), target=ramp(height, width, scale))


def at_the_coarser(sample: Sample, placement: Placement, scale: float) -> tuple[Tensor, Tensor]:
    """Source and target, placed, at the sides of the smaller one, by the mean of each block."""
    placed = place(sample, placement, source_is_ids=False)
    assert list(placed.maps["target"].shape[-2:]) == [side * scale for side in placed.source.shape[-2:]]
    of_both = ((placed.source, 1 / scale), (placed.maps["target"], scale))
    source, target = (F.avg_pool2d(image, round(max(1, by))) for image, by in of_both)
    return source, target


@SCALES
@pytest.mark.parametrize("mode", MODES)
def test_every_draw_shows_source_and_target_the_same_place(scale: float, mode: Mode) -> None:
    is_cropped = mode not in ("scale_width", "none")  # square crops
    augmentation = TURNED if is_cropped else SMALL.augmentation
    settings = replace(SMALL, mode=mode, target_scale=scale, augmentation=augmentation)
    sample, seen = sample_of(*((40, 56) if mode in ("crop", "none") else (32, 48)), scale), set()
    for seed in range(12):
        source, target = at_the_coarser(sample, settings.draw(sample, np.random.default_rng(seed)), scale)
        assert torch.allclose(source, target, atol=1e-4)
        seen.add(source.numpy().tobytes())
    assert len(seen) > (6 if is_cropped else 1)
    larger = sample_of(44, 68, scale)
    source, target = (image[:, 2:-2, 2:-2] for image in at_the_coarser(larger, settings.fixed(larger), scale))
    assert torch.allclose(source, target, atol=0.05 * max(1, 1 / scale))  # resizing reflects at borders


@SCALES
def test_a_warp_is_about_the_same_point(scale: float) -> None:
    warps = PairAugmentation(rotation_degrees=(-30, 30), scale=(0.9, 1.2), elastic=(0.0, 0.02))
    settings, sample = replace(SMALL, augmentation=warps, target_scale=scale), sample_of(96, 120, scale)
    for seed in range(6):
        source, target = at_the_coarser(sample, settings.draw(sample, np.random.default_rng(seed)), scale)
        inside = (source > 4) & (source < torch.tensor([92.0, 116.0]).view(2, 1, 1))  # away from reflections
        assert inside.float().mean() > 0.5
        # pixels of the source: an elastic warp is not linear, and torch's bicubic is up to 0.05 pixels of either off
        assert (source - target)[inside].abs().max() < max(0.2, 0.1 / scale)


def test_a_scale_of_1_has_the_rule_of_earlier_versions() -> None:
    assert SMALL.size_rule == "crop 32 48 8 16"
    assert replace(SMALL, target_scale=2.0).size_rule != SMALL.size_rule


FLOATS = np.random.default_rng(0).uniform(-400.0, 3000.0, (2, 8, 9)).astype(np.float32)
LEVELS = np.random.default_rng(1).integers(0, 10000, (3, 6, 6)).astype(np.uint16)
NETCDF = float(np.float32(9.969209968386869e36))
LOWEST = float(np.finfo(np.float32).min)


def found(values: np.ndarray, *pixels: float, path: Path | None = None) -> tuple[float, int] | None:
    changed = values.copy()
    changed[0, 0, : len(pixels)] = pixels
    return no_data(torch.from_numpy(changed), path)


@pytest.mark.parametrize(
    ("values", "value"), [*((FLOATS, value) for value in (-9999.0, NETCDF, LOWEST)), (LEVELS, 65535.0)]
)
def test_a_usual_value_apart_from_all_others_is_one(values: np.ndarray, value: float) -> None:
    assert found(values) is None
    assert found(values, value, value) == (value, 2)


@pytest.mark.parametrize(
    ("values", "pixels"),
    [
        (FLOATS, (-9000.0,)),  # not usual
        (FLOATS * 10, (-9999.0, -9998.0)),  # among others
        (FLOATS.astype(np.int16) * 10, (-32768,)),  # a limit nearer than the others are apart: saturated
        (np.full((1, 4, 4), -9999, np.float32), ()),  # no other: an image of one colour
        ((FLOATS % 256).astype(np.uint8), ()),
    ],
)
def test_other_values_are_none(values: np.ndarray, pixels: tuple[float, ...]) -> None:
    assert found(values, *pixels) is None


@pytest.mark.parametrize(("text", "value"), [("-7", -7.0), ("0 ", 0.0), ("none", None)])
def test_the_tag_of_a_tiff_names_any_value(tmp_path: Path, text: str, value: float | None) -> None:
    path = tmp_path / "x.tif"
    tifffile().imwrite(path, FLOATS, photometric="minisblack", extratags=[(42113, 2, 0, text, True)])
    assert found(FLOATS, -7.0, 0.0, path=path) == (None if value is None else (value, 1))
    assert found(FLOATS, path=tmp_path / "missing.tif") is None


@pytest.mark.parametrize(("value", "highest", "dtype"), [(-2000, 30000, torch.int16), (-32768, 1500, torch.float32)])
def test_padding_of_ct_is_recognized(value: int, highest: int, dtype: torch.dtype) -> None:
    """The highest value is 30000 in an image with metal."""
    image = torch.arange(-1024, highest, 2).view(1, 1, -1).to(dtype)
    assert no_data(image, None) is None
    image[..., :7] = value
    assert no_data(image, None) == (value, 7)
    image[..., 7:] -= 2000  # heights of a sea floor
    assert no_data(image, None) == ((value, 7) if value == -32768 else None)


def missing(image: Tensor, value: float | None) -> list[list[int]] | None:
    pixels = missing_pixels(image, value)
    return None if pixels is None else pixels.nonzero().tolist()


def test_missing_pixels_are_found() -> None:
    image = torch.arange(24.0).view(2, 3, 4)
    assert missing(image, None) is missing(image, math.nan) is None
    image[0, 1, 2], image[1, 2, 3], image[1, 0, 0] = math.nan, -math.inf, -9999
    assert missing(image, -9999) == [[0, 0], [1, 2], [2, 3]]
    levels = torch.ones(3, 2, 2, dtype=torch.uint8)
    levels[0, 0, 0] = 0
    assert missing(levels, 0) is None  # red of a dark pixel
    levels[:, 1, 1] = 0
    assert missing(levels, 0) == [[1, 1]]
    assert missing(levels, 0.5) is missing(levels, -1) is None
    for value in (1e20, -3.40282346639e38, 0.1):  # tags hold decimals, and pixels the nearest float32
        assert missing(torch.tensor([[[value, 1.0]]]), value) == [[0, 0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint16])
def test_missing_pixels_repeat_the_nearest_of_their_row(dtype: torch.dtype) -> None:
    image = torch.tensor([[[9, 1, 9, 9, 9, 2], [9] * 6, [9, 9, 9, 9, 9, 4], [5, 9, 9, 9, 9, 9]]]).to(dtype)
    image = torch.from_numpy(np.concatenate([image.numpy(), image.numpy() + 10]))
    first, second = filled(image, image[0] == 9, torch.tensor([70.0, 80.0]).view(2, 1, 1))
    assert (first.dtype, first.tolist()) == (dtype, [[1, 1, 1, 1, 2, 2], [70] * 6, [4] * 6, [5] * 6])
    assert second.tolist() == [[11, 11, 11, 11, 12, 12], [80] * 6, [14] * 6, [15] * 6]
    assert filled(image, None, image[:, :1, :1]) is image
