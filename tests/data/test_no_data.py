"""Pixels without data: their value, their places, and what fills them."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from data.no_data import filled, missing_pixels, no_data


@pytest.mark.parametrize("value", [-3024, -2000, -32768])
@pytest.mark.parametrize("highest", [1500, 30000])  # with metal
@pytest.mark.parametrize("dtype", [torch.int16, torch.float32])
def test_padding_of_ct_is_recognized(value: int, highest: int, dtype: torch.dtype) -> None:
    image = torch.arange(-1024, highest, 2).view(1, 1, -1).to(dtype)
    assert no_data(image, None) is None
    image[..., :7] = value
    assert no_data(image, None) == (value, 7)
    image[..., 7:] -= 2000  # heights of a sea floor
    assert no_data(image, None) == ((value, 7) if value == -32768 and highest == 1500 else None)


def test_missing_pixels_are_found() -> None:
    image = torch.arange(24.0).view(2, 3, 4)
    assert missing_pixels(image, None) is None
    assert missing_pixels(image, math.nan) is None
    image[0, 1, 2], image[1, 2, 3], image[1, 0, 0] = math.nan, -math.inf, -9999
    found = missing_pixels(image, -9999)
    assert found is not None
    assert found.nonzero().tolist() == [[0, 0], [1, 2], [2, 3]]
    levels = torch.ones(3, 2, 2, dtype=torch.uint8)
    levels[0, 0, 0] = 0
    assert missing_pixels(levels, 0) is None  # red of a dark pixel
    levels[:, 1, 1] = 0
    found = missing_pixels(levels, 0)
    assert found is not None
    assert found.tolist() == [[False, False], [False, True]]
    assert missing_pixels(levels, 0.5) is missing_pixels(levels, -1) is None
    for value in (1e20, -3.40282346639e38, 0.1):  # tags hold decimals, and pixels the nearest float32
        found = missing_pixels(torch.tensor([[[value, 1.0]]]), value)
        assert found is not None
        assert found.tolist() == [[True, False]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint16])
def test_missing_pixels_repeat_the_nearest_of_their_row(dtype: torch.dtype) -> None:
    image = torch.tensor([[[9, 1, 9, 9, 9, 2], [9] * 6, [9, 9, 9, 9, 9, 4], [5, 9, 9, 9, 9, 9]]]).to(dtype)
    image = torch.from_numpy(np.concatenate([image.numpy(), image.numpy() + 10]))
    result = filled(image, image[0] == 9, torch.tensor([70.0, 80.0]).view(2, 1, 1))
    assert result.dtype == dtype
    assert result[0].tolist() == [[1, 1, 1, 1, 2, 2], [70] * 6, [4] * 6, [5] * 6]
    assert result[1].tolist() == [[11, 11, 11, 11, 12, 12], [80] * 6, [14] * 6, [15] * 6]
    assert filled(image, None, image[:, :1, :1]) is image


def test_a_damaged_tiff_names_no_value(tmp_path: Path) -> None:
    (tmp_path / "x.tif").write_bytes(b"II*\0")
    assert no_data(torch.zeros(1, 2, 2), tmp_path / "x.tif") is None
