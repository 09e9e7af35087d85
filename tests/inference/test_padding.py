"""Samples are padded by reflection."""

import pytest
import torch

from data.batch import Batch, DataError, Sample
from data.preprocessing import Preprocessing
from inference.padding import padded


def sides(size_multiple: int, min_size: int, scale: float = 1.0) -> Preprocessing:
    return Preprocessing("none", 8, 8, 8, 8, False, size_multiple, min_size, target_scale=scale)


def test_maps_are_mirrored_alike_and_cut_back() -> None:
    ids = torch.arange(15, dtype=torch.int32).view(1, 3, 5)
    sample = Sample("x", source=ids, instances=ids + 100, target=ids.to(torch.uint8).repeat(3, 1, 1))
    read = padded(sample, sides(4, 8))
    larger, window = read.padded, read.window
    assert larger.source.shape == (1, 8, 8)
    assert torch.equal(window.cut(larger.source), ids)
    assert larger.source[0, :, 1].tolist() == [10, 5, 0, 5, 10, 5, 0, 5]  # 3 rows mirrored over and over
    assert larger.source[0, 2].tolist() == [1, 0, 1, 2, 3, 4, 3, 2]
    assert torch.equal(larger.maps["instances"], larger.source + 100)
    assert torch.equal(larger.maps["target"][:1].int(), larger.source)
    assert padded(larger, sides(4, 8)).padded is larger


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_sources_of_several_sizes_share_a_batch_whatever_their_targets(scale: float) -> None:
    read = []
    for height in (12, 14, 16):
        of_target = [round(side * scale) for side in (height, 16)]
        target, weights = torch.zeros(3, *of_target), torch.ones(1, *of_target)
        sample = Sample("x", source=torch.zeros(3, height, 16), target=target, weights=weights)
        read.append(padded(sample, sides(16, 16, scale)).padded)
    assert Batch.of(read).source.shape == (3, 3, 16, 16)


@pytest.mark.parametrize(
    ("scale", "height", "width"), [(0.25, 3, 5), (0.5, 17, 30), (1.0, 1, 23), (2.0, 16, 16), (4.0, 3, 5)]
)
def test_the_window_holds_the_translation_of_the_sample(scale: float, height: int, width: int) -> None:
    places = torch.arange(height * width, dtype=torch.int32).view(1, height, width)
    read = padded(Sample("x", source=places), sides(8, 16, scale))
    larger, window = read.padded, read.window
    if scale < 1:
        unit = round(1 / scale)
        translated = larger.source[:, ::unit, ::unit]
        assert torch.equal(window.cut(translated), places[:, ::unit, ::unit])
    else:
        translated, wanted = (
            image.repeat_interleave(round(scale), 1).repeat_interleave(round(scale), 2)
            for image in (larger.source, places)
        )
        assert torch.equal(window.cut(translated), wanted)


def test_a_small_image_is_not_padded_to_a_huge_one() -> None:
    sample = Sample("a.png", source=torch.zeros(3, 32, 32, dtype=torch.uint8))
    assert padded(sample, sides(1024, 1024)).padded.source.shape[-2:] == (1024, 1024)
    with pytest.raises(DataError, match=r"a\.png is 32x32, which this network pads to 4096x4096: give larger"):
        padded(sample, sides(4096, 4096))
