"""Samples are padded by reflection, and their pixels without data are filled, and marked in results."""

import math

import pytest
import torch

from data.batch import Batch, DataError, Sample
from data.preprocessing import Preprocessing
from inference.reading import NoData, NoDataRule, padded, reduced


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


def test_sources_of_several_sizes_share_a_batch_whatever_their_targets() -> None:
    read = []
    for height in (12, 14, 16):
        target, weights = torch.zeros(3, 2 * height, 32), torch.ones(1, 2 * height, 32)
        sample = Sample("x", source=torch.zeros(3, height, 16), target=target, weights=weights)
        read.append(padded(sample, sides(16, 16, 2.0)).padded)
    assert Batch.of(read).source.shape == (3, 3, 16, 16)


@pytest.mark.parametrize(("scale", "height", "width"), [(0.25, 3, 5), (1.0, 1, 23), (4.0, 3, 5)])
def test_the_window_holds_the_translation_of_the_sample(scale: float, height: int, width: int) -> None:
    places = torch.arange(height * width, dtype=torch.int32).view(1, height, width)
    read = padded(Sample("x", source=places), sides(8, 16, scale))
    unit, factor = max(1, round(1 / scale)), max(1, round(scale))
    translated, wanted = (
        image[:, ::unit, ::unit].repeat_interleave(factor, 1).repeat_interleave(factor, 2)
        for image in (read.padded.source, places)
    )
    assert torch.equal(read.window.cut(translated), wanted)


def test_a_small_image_is_not_padded_to_a_huge_one() -> None:
    sample = Sample("a.png", source=torch.zeros(3, 32, 32, dtype=torch.uint8))
    assert padded(sample, sides(1024, 1024)).padded.source.shape[-2:] == (1024, 1024)
    with pytest.raises(DataError, match=r"a\.png is 32x32, but this network needs 4096x4096: use larger"):
        padded(sample, sides(4096, 4096))


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (torch.float32, None, math.nan),
        (torch.float32, -9999.0, -9999),
        (torch.int16, 0.5, -32768),
        (torch.uint8, math.nan, 0),
    ],
)
def test_results_have_the_value_of_the_source_if_their_type_has_it(
    dtype: torch.dtype, value: float | None, expected: float
) -> None:
    source = torch.tensor([[[5.0, math.nan], [5.0, 5.0]]])
    sample, marks = NoDataRule(value, "source", None, dtype).fill(Sample("x", source=source), {})
    assert marks is not None
    assert sample.source.flatten().tolist() == [5, 5, 5, 5]
    result = torch.full((1, 2, 2), 7 if math.isnan(expected) else expected).to(dtype)
    before = result.clone()
    marked = marks.marked(result)[0]
    assert torch.equal(result.float(), before.float())
    assert float(marked[0, 1]) == pytest.approx(expected, nan_ok=True)
    assert marked.float().isfinite().sum() == (3 if math.isnan(expected) else 4)
    assert (marked == expected).sum() <= (4 if dtype.is_floating_point else 1)  # integers with data have other values


def test_a_result_has_no_such_pixels_without_a_value_or_a_pixel() -> None:
    rule, sample = NoDataRule(None, "source", None, torch.float32), Sample("x", source=torch.ones(1, 2, 2))
    assert rule.fill(sample, {}) == (sample, None)
    _, tagged = NoDataRule(-1.0, "source", None, torch.float32).fill(sample, {})
    assert tagged == NoData(-1.0, None)
    assert torch.equal(tagged.marked(torch.ones(1, 2, 2)), torch.ones(1, 2, 2))
    assert NoDataRule(3.0).fill(sample, {}) == (sample, None)  # label maps


@pytest.mark.parametrize(("height", "width"), [(10, 14), (3, 4)])
def test_pixels_without_data_keep_their_place_in_a_result_of_another_size(
    monkeypatch: pytest.MonkeyPatch, height: int, width: int
) -> None:
    monkeypatch.setattr("utils.mapped_memory._STRIP_PIXELS", 2 * width)
    missing = torch.rand(5, 7, generator=torch.Generator().manual_seed(0)) < 0.5
    rows, columns = torch.arange(height) * 5 // height, torch.arange(width) * 7 // width
    marked = NoData(-1.0, missing).marked(torch.ones(1, height, width))
    assert torch.equal(marked[0] == -1, missing[rows[:, None], columns])


@pytest.mark.parametrize("dtype", [torch.uint16, torch.float32])
def test_images_are_reduced_to_means_and_ids_to_every_nth(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    image = (torch.arange(2 * 35 * 22) % 251).reshape(2, 35, 22)
    assert torch.equal(reduced(image), image)
    monkeypatch.setattr("inference.reading._REDUCED", 35 * 22 // 9)
    assert torch.equal(reduced(image, is_ids=True), image[:, ::3, ::3])
    made = reduced(image.to(dtype))
    assert (made.dtype, made.shape) == (dtype, (2, 12, 8))
    means = image[:, :33, :21].float().unfold(1, 3, 3).unfold(2, 3, 3).mean((3, 4))
    assert (made[:, :11, :7].float() - means).abs().max() < (1e-3 if dtype == torch.float32 else 0.51)
    assert made[1, 11, 7] == image[1, 33:, 21:].float().mean().round()
