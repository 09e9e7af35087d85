import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import DataError
from data.files.pixels import StoredForm
from data.map_reader import MapReader
from data.paired_folders import PairedFolders
from data.value_range import PERCENTILES, ValueRange, _bounds, percentile_ranges
from tests.images import save_npy


def test_the_range_becomes_minus_1_to_1_and_the_rest_is_clamped() -> None:
    values = torch.tensor([[[[-10.0, 0.0, 5.0, 10.0, 99.0]]]])
    assert ValueRange.of([0, 10]).to_float(values).tolist() == [[[[-1, -1, 0, 1, 1]]]]
    assert values[0, 0, 0, 0] == -10  # the batch stays
    assert ValueRange.of([0, 10]).to_float(values, clamps=False).tolist() == [[[[-3, -1, 0, 1, pytest.approx(18.8)]]]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.int16])
def test_integers_survive_there_and_back(dtype: torch.dtype) -> None:
    bounds = torch.iinfo(dtype)
    values = torch.arange(bounds.min, bounds.max + 1, 3).to(dtype).view(1, 1, 1, -1)
    range_of_type = ValueRange.of([bounds.min, bounds.max])
    floats = range_of_type.to_float(values)
    assert (floats.min(), floats.dtype) == (-1, torch.float32)
    assert torch.equal(range_of_type.from_float(floats, dtype), values)


def test_each_channel_has_its_range() -> None:
    values = ValueRange.of([0, 10, 100, 300])
    images = torch.tensor([5, 200], dtype=torch.int16).view(1, 2, 1, 1).expand(2, 2, 4, 5)
    assert torch.equal(values.to_float(images), torch.zeros(2, 2, 4, 5))
    assert values.from_float(torch.ones(1, 2, 1, 1), torch.float32).flatten().tolist() == [10, 300]


def test_the_share_outside_is_counted() -> None:
    image = torch.tensor([[[0, 10, 11, -1]]], dtype=torch.int16)
    assert ValueRange.of([0, 10]).outside(image) == 0.5


def pairs(root: Path, n: int) -> PairedFolders:
    for number in range(n):
        pixels = np.random.default_rng(number).uniform(0, 1000, (2, 30, 40)).astype(np.float32)
        pixels[1] = 7
        save_npy(root / "A" / f"{number}.npy", pixels)
        save_npy(root / "B" / f"{number}.npy", pixels[0])
    forms = {
        "source": StoredForm(2, "data.source_channels", is_8_bit=False),
        "target": StoredForm(1, "data.target_channels", is_8_bit=False),
    }
    return PairedFolders({"source": root / "A", "target": root / "B"}, MapReader(forms=forms))


def test_percentiles_are_of_each_channel(tmp_path: Path) -> None:
    found = percentile_ranges(pairs(tmp_path, 3), ["source", "target"], skips_bad=False)
    low, high, *constant = found["source"]
    assert low == pytest.approx(1, abs=2)
    assert high == pytest.approx(999, abs=2)
    assert constant == [7, 8]
    assert found["target"] == [low, high]


@pytest.mark.parametrize("bad", [1, 2])  # 2: the last one
def test_bad_samples_are_left_out_of_percentiles_where_they_are_skipped(tmp_path: Path, bad: int) -> None:
    layout = pairs(tmp_path, 3)
    (tmp_path / "A" / f"{bad}.npy").write_bytes(b"")
    assert len(percentile_ranges(layout, ["source"], skips_bad=True)["source"]) == 4
    with pytest.raises(DataError, match=rf"{bad}\.npy: cannot be read"):
        percentile_ranges(layout, ["source"], skips_bad=False)
    for number in range(3):
        (tmp_path / "A" / f"{number}.npy").write_bytes(b"")
    with pytest.raises(DataError, match=r"2\.npy: cannot be read"):
        percentile_ranges(layout, ["source"], skips_bad=True)


def test_pixels_without_data_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for number in range(2):
        ct = np.random.default_rng(number).integers(-1000, 2000, (1, 40, 40), dtype=np.int16)
        ct[0, : 10 * number] = -3024
        save_npy(tmp_path / f"{number}.npy", ct)
    reader = MapReader(forms={"source": StoredForm(1, "data.source_channels", is_8_bit=False)})
    low, high = percentile_ranges(PairedFolders({"source": tmp_path}, reader), ["source"], skips_bad=False)["source"]
    assert (low, high) == (pytest.approx(-1000, abs=20), pytest.approx(2000, abs=20))
    assert caplog.messages == ["no data        -3024 in 1 image of the sources; the range leaves such pixels out"]


@pytest.mark.parametrize(("low", "high"), [(1737406.25, 1737413.25), (0.1, 0.100001), (-3e-9, 2e-9), (-1e30, 1e30)])
def test_bounds_are_rounded_in_relation_to_their_distance(low: float, high: float) -> None:
    values = np.linspace(low, high, 1001, dtype=np.float32)
    least_step = float(np.spacing(np.float32(high)))
    assert _bounds(values[None]) == pytest.approx(
        np.percentile(values.astype(np.float64), PERCENTILES).tolist(), rel=0, abs=1e-5 * (high - low) + least_step
    )


def test_a_large_constant_has_a_range_of_its_own() -> None:
    low, high = _bounds(np.full((1, 9), 1e9, np.float32))
    assert low == 1e9 < np.float32(high)
