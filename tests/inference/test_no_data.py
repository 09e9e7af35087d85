"""Pixels without data of results: their value, and their places at the size of the result."""

import math

import pytest
import torch

from inference.no_data import NoDataRule, scaled_rows


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (torch.float32, None, math.nan),
        (torch.float32, -9999.0, -9999),
        (torch.int16, -9999.0, -9999),
        (torch.int16, None, -32768),
        (torch.int16, 0.5, -32768),
        (torch.uint16, -9999.0, 0),
        (torch.uint16, 65535.0, 65535),
        (torch.uint8, math.nan, 0),
        (torch.uint8, 255.0, 255),
    ],
)
def test_results_have_the_value_of_the_source_if_their_type_has_it(
    dtype: torch.dtype, value: float | None, expected: float
) -> None:
    rule, missing = NoDataRule(None, "source", None, dtype), torch.tensor([[False, True], [False, False]])
    marks = rule.marks(value, lambda top, bottom: missing[top:bottom], has_missing=True)
    assert marks is not None
    assert marks.value == pytest.approx(expected, nan_ok=True)
    rows = torch.full((1, 2, 2), 7 if math.isnan(expected) else expected).to(dtype)
    marked = marks.marked(rows, 0)[0]
    assert float(marked[0, 1]) == pytest.approx(expected, nan_ok=True)
    assert marked.float().isfinite().sum() == (3 if math.isnan(expected) else 4)
    assert (marked == expected).sum() <= (4 if dtype.is_floating_point else 1)  # integers with data are no such value


def test_a_result_has_no_such_pixels_without_a_value_or_a_pixel() -> None:
    rule = NoDataRule(None, "source", None, torch.float32)
    assert rule.marks(None, lambda *_: None, has_missing=False) is None
    tagged = rule.marks(-1.0, lambda *_: None, has_missing=False)
    assert tagged is not None
    assert torch.equal(tagged.marked(torch.ones(1, 2, 2), 0), torch.ones(1, 2, 2))


def test_label_maps_have_data_everywhere() -> None:
    assert NoDataRule(3.0).value_in({}) is None


@pytest.mark.parametrize(("height", "width"), [(5, 7), (10, 14), (3, 4), (20, 28)])
def test_rows_of_a_result_are_those_of_the_same_place(height: int, width: int) -> None:
    missing = torch.rand(5, 7, generator=torch.Generator().manual_seed(0)) < 0.5
    found = scaled_rows(lambda top, bottom: missing[top:bottom], (5, 7), (height, width))
    rows, columns = torch.arange(height) * 5 // height, torch.arange(width) * 7 // width
    for top, bottom in ((0, height), (1, 3), (height - 1, height)):
        part = found(top, bottom)
        assert part is not None
        assert torch.equal(part, missing[rows[top:bottom, None], columns])
