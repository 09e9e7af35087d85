from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from PIL import Image

from data.batch import DataError, Sample
from data.preprocessing import Mode, Placement, Placements, Preprocessing, place

SETTINGS = Preprocessing(
    mode="none", load_height=48, load_width=96, crop_height=32, crop_width=64, flip=True, size_multiple=8, min_size=16
)


def coordinate_sample(height: int, width: int) -> Sample:
    """A sample whose maps hold the column of each pixel, so that maps cropped alike stay equal."""
    columns = torch.arange(width).expand(1, height, width)
    rgb = columns.expand(3, -1, -1).to(torch.uint8)
    return Sample("s", columns.to(torch.uint8), columns.to(torch.int32), rgb)


@pytest.mark.parametrize(
    ("mode", "size"),
    [
        ("resize_and_crop", (32, 64)),
        ("scale_width", (48, 96)),
        ("scale_width_and_crop", (32, 64)),
        ("crop", (32, 64)),
        ("none", (64, 120)),
    ],
)
def test_each_mode_gives_its_size(mode: Mode, size: tuple[int, int]) -> None:
    sample = coordinate_sample(60, 120)  # 60 is no multiple of 8; 96 wide it is 48 high
    settings = replace(SETTINGS, mode=mode)
    for seed in range(5):
        placed = place(sample, settings.draw(sample, np.random.default_rng(seed)), source_is_ids=True)
        assert placed.target is not None
        assert placed.source.shape[-2:] == placed.target.shape[-2:] == size


@pytest.mark.parametrize("mode", get_args(Mode))
def test_whole_images_are_tested_at_multiples(mode: Mode) -> None:
    sample = coordinate_sample(61, 125)
    placement = replace(SETTINGS, mode=mode).fixed(sample).source
    assert placement.crop_height % 8 == placement.crop_width % 8 == 0
    assert not placement.flip


def test_a_tiny_image_is_enlarged_to_what_the_generator_takes() -> None:
    placement = SETTINGS.fixed(coordinate_sample(1, 3)).source
    assert (placement.height, placement.width) == (16, 16)


def test_every_map_of_a_sample_is_cut_by_the_same_draw() -> None:
    sample = coordinate_sample(60, 120)
    settings = replace(SETTINGS, mode="crop")
    seen = set()
    for seed in range(20):
        placements = settings.draw(sample, np.random.default_rng(seed))
        placement = placements.source
        placed = place(sample, placements, source_is_ids=True)
        assert placed.instances is not None
        assert placed.target is not None
        assert torch.equal(placed.source.int(), placed.instances)
        assert torch.equal(placed.source, placed.target[:1])
        seen.add((placement.top, placement.left, placement.flip))
    assert len(seen) > 15
    assert {flip for _, _, flip in seen} == {False, True}


def test_the_sides_of_a_sample_are_placed_each_by_itself() -> None:
    sample = coordinate_sample(8, 16)
    placements = Placements(Placement(8, 16, 2, 3, 4, 4, flip=False), Placement(8, 16, 1, 5, 6, 8, flip=True))
    placed = place(sample, placements, source_is_ids=True)
    assert sample.target is not None
    assert placed.instances is not None
    assert placed.target is not None
    assert torch.equal(placed.source, sample.source[:, 2:6, 3:7])
    assert torch.equal(placed.instances.int(), placed.source.int())
    assert torch.equal(placed.target, sample.target[:, 1:7, 5:13].flip(-1))


def test_without_flip_nothing_is_mirrored() -> None:
    sample = coordinate_sample(60, 120)
    settings = replace(SETTINGS, mode="crop", flip=False)
    assert not any(settings.draw(sample, np.random.default_rng(seed)).source.flip for seed in range(20))


def test_a_resized_pair_keeps_its_alignment() -> None:
    ids = torch.zeros(1, 64, 64, dtype=torch.uint8)
    ids[:, 16:40, 8:32] = 1
    sample = Sample("s", ids, None, ids.expand(3, -1, -1) * 255)
    placed = place(sample, Placements.of_pair(Placement(32, 32, 0, 0, 32, 32, flip=True)), source_is_ids=True)
    assert placed.target is not None
    assert torch.equal(placed.source[0] == 1, placed.target[0] > 127)


def test_ids_are_resized_like_pillows_nearest_and_exactly() -> None:
    ids = np.random.default_rng(0).integers(0, 2**31 - 1, (37, 53), dtype=np.int32)
    for height, width in ((20, 20), (64, 100), (37, 60)):
        expected = np.asarray(Image.fromarray(ids).resize((width, height), Image.Resampling.NEAREST))
        resized = Placement(height, width, 0, 0, height, width, flip=False).ids(torch.from_numpy(ids)[None])
        assert np.array_equal(resized[0].numpy(), expected)


def test_images_are_resized_like_pillows_bicubic() -> None:
    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    expected = np.asarray(Image.fromarray(image).resize((32, 24), Image.Resampling.BICUBIC)).astype(int)
    resized = Placement(24, 32, 0, 0, 24, 32, flip=False).image(torch.from_numpy(image).permute(2, 0, 1))
    assert np.abs(resized.permute(1, 2, 0).numpy().astype(int) - expected).max() <= 1


def test_an_image_smaller_than_the_crop_is_named() -> None:
    sample = replace(coordinate_sample(16, 120), name="small/one")
    with pytest.raises(DataError, match=r"small/one is 120x16, too small for a crop of 64x32"):
        replace(SETTINGS, mode="crop").draw(sample, np.random.default_rng(0))
