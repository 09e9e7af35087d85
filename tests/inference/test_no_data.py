"""Pixels without data of results: their value, and their places at the size of the result."""

import math

import pytest
import torch

from inference.no_data import NoDataRule


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (torch.float32, None, math.nan),
        (torch.float32, -9999.0, -9999),
        (torch.int16, 0.5, -32768),
        (torch.uint16, 65535.0, 65535),
        (torch.uint8, math.nan, 0),
    ],
)
def test_results_have_the_value_of_the_source_if_their_type_has_it(
    dtype: torch.dtype, value: float | None, expected: float
) -> None:
    missing = torch.tensor([[False, True], [False, False]])
    marks = NoDataRule(None, "source", None, dtype).marks(value, missing)
    assert marks is not None
    result = torch.full((1, 2, 2), 7 if math.isnan(expected) else expected).to(dtype)
    before = result.clone()
    marked = marks.marked(result)[0]
    assert torch.equal(result.float(), before.float())
    assert float(marked[0, 1]) == pytest.approx(expected, nan_ok=True)
    assert marked.float().isfinite().sum() == (3 if math.isnan(expected) else 4)
    assert (marked == expected).sum() <= (4 if dtype.is_floating_point else 1)  # integers with data are no such value


def test_a_result_has_no_such_pixels_without_a_value_or_a_pixel() -> None:
    rule = NoDataRule(None, "source", None, torch.float32)
    assert rule.marks(None, None) is None
    tagged = rule.marks(-1.0, None)
    assert tagged is not None
    assert torch.equal(tagged.marked(torch.ones(1, 2, 2)), torch.ones(1, 2, 2))
    assert NoDataRule(3.0).value_in({}) is None  # of label maps


@pytest.mark.parametrize(("height", "width"), [(10, 14), (3, 4)])
def test_pixels_without_data_keep_their_place_in_a_result_of_another_size(
    monkeypatch: pytest.MonkeyPatch, height: int, width: int
) -> None:
    monkeypatch.setattr("utils.mapped_memory._STRIP_PIXELS", 2 * width)
    missing = torch.rand(5, 7, generator=torch.Generator().manual_seed(0)) < 0.5
    marks = NoDataRule(None, "source", None, torch.float32).marks(-1.0, missing)
    assert marks is not None
    rows, columns = torch.arange(height) * 5 // height, torch.arange(width) * 7 // width
    assert torch.equal(marks.marked(torch.ones(1, height, width))[0] == -1, missing[rows[:, None], columns])
