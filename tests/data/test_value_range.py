import pytest
import torch

from data.value_range import ValueRange


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
