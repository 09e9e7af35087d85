"""Values that stand for no data differ from low and high ones."""

from pathlib import Path

import numpy as np
import pytest
import torch

from data.checks.no_data import no_data
from tests.images import tifffile

FLOATS = np.random.default_rng(0).uniform(-400.0, 3000.0, (2, 8, 9)).astype(np.float32)
NETCDF = float(np.float32(9.969209968386869e36))
LOWEST = float(np.finfo(np.float32).min)


def found(values: np.ndarray, *pixels: float, path: Path | None = None) -> tuple[float, int] | None:
    changed = values.copy()
    changed[0, 0, : len(pixels)] = pixels
    return no_data(torch.from_numpy(changed), path)


@pytest.mark.parametrize("value", [-9999.0, -99999.0, NETCDF, LOWEST, -32768.0])
def test_a_usual_value_apart_from_all_others_is_one(value: float) -> None:
    assert found(FLOATS) is None
    assert found(FLOATS, value, value) == (value, 2)


def test_pixels_are_counted_once() -> None:
    both = FLOATS.copy()
    both[:, 3, 4:7] = -9999
    assert no_data(torch.from_numpy(both), None) == (-9999.0, 3)


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


def test_limits_of_16_bits() -> None:
    reflectance = np.random.default_rng(1).integers(0, 10000, (3, 6, 6)).astype(np.uint16)
    assert found(reflectance, 65535) == (65535.0, 1)
    assert found(reflectance.astype(np.int16), -32768) == (-32768.0, 1)


@pytest.mark.parametrize(("text", "value"), [("-7", -7.0), ("0 ", 0.0), ("nan", None), ("none", None)])
def test_the_tag_of_a_tiff_names_any_value(tmp_path: Path, text: str, value: float | None) -> None:
    path = tmp_path / "x.tif"
    tifffile().imwrite(path, FLOATS, photometric="minisblack", extratags=[(42113, 2, 0, text, True)])
    assert found(FLOATS, -7.0, 0.0, path=path) == (None if value is None else (value, 1))
    assert found(FLOATS, path=tmp_path / "missing.tif") is None
