"""Pixels without data: their value, their places, and what fills them."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from data.preprocessing import filled, missing_pixels, no_data
from tests.images import tifffile

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


@pytest.mark.parametrize(
    ("value", "highest", "dtype"),
    [(-2000, 30000, torch.int16), (-32768, 1500, torch.float32)],  # 30000: with metal
)
def test_padding_of_ct_is_recognized(value: int, highest: int, dtype: torch.dtype) -> None:
    image = torch.arange(-1024, highest, 2).view(1, 1, -1).to(dtype)
    assert no_data(image, None) is None
    image[..., :7] = value
    assert no_data(image, None) == (value, 7)
    image[..., 7:] -= 2000  # heights of a sea floor
    assert no_data(image, None) == ((value, 7) if value == -32768 else None)


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
    first, second = filled(image, image[0] == 9, torch.tensor([70.0, 80.0]).view(2, 1, 1))
    assert (first.dtype, first.tolist()) == (dtype, [[1, 1, 1, 1, 2, 2], [70] * 6, [4] * 6, [5] * 6])
    assert second.tolist() == [[11, 11, 11, 11, 12, 12], [80] * 6, [14] * 6, [15] * 6]
    assert filled(image, None, image[:, :1, :1]) is image
