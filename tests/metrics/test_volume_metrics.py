"""Figures of volumes equal SynthRAD's, are None where they are not defined, and need little memory."""

import math
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from metrics.volume_metrics import Figures, summary, volume_figures

FOLDER = Path(__file__).parents[1] / "reference"
CASES = torch.load(FOLDER / "volumes_reference.pt", weights_only=True)
EXTRAS = torch.load(FOLDER / "volumes_extras_reference.pt", weights_only=True)


def from_formula(case: dict[str, Any]) -> tuple[np.ndarray, ...]:
    """Return the target, the translation and the mask that the field `formula` describes."""
    c, (d, h, w) = case["c"], case["shape"]
    z, y, x = np.ogrid[:d, :h, :w]
    target = np.floor(900 * np.cos(c[0] * x + c[1] * y) * np.cos(c[2] * z))
    mask = (z - d / 2) ** 2 + (y - h / 2) ** 2 + (x - w / 2) ** 2 < c[5] ** 2
    return target, np.floor(target + 120 * np.sin(c[3] * x + c[4] * z)), mask


def cases() -> Iterator[Any]:
    for case in CASES["metrics"]:
        volumes = tuple(case[name].numpy() for name in ("target", "fake", "mask"))
        for name, figures in case["figures"].items():
            yield pytest.param(volumes, (figures["low"], figures["high"]), figures, id=f"{case['kind']}, {name}")
    for kind, case in EXTRAS["metrics"].items():
        if kind == "large_by_formula":
            volumes = from_formula(case)
        else:
            tensors = (case[name] for name in ("target", "translated", "mask"))
            volumes = tuple(None if tensor is None else tensor.numpy() for tensor in tensors)
        for high in (3000.0, 3071.0):
            figures = {"mae": case["mae"]} | case[f"range_-1024_{high:.0f}"]
            yield pytest.param(volumes, (-1024.0, high), figures, id=f"{kind}, {high:.0f}")


def known(figures: dict[str, Any]) -> Figures:
    names = ("mae", "psnr", "ms_ssim", "ssim")
    return {name: None if (value := figures[name]) is None or math.isnan(value) else value for name in names}


@pytest.mark.parametrize(("volumes", "bounds", "expected"), [*cases()])
def test_figures_equal_synthrads(
    volumes: tuple[np.ndarray, np.ndarray, np.ndarray | None], bounds: tuple[float, float], expected: dict[str, Any]
) -> None:
    target, fake, mask = volumes
    figures = volume_figures(target, fake, mask, bounds)
    assert figures.pop("n_voxels") == (target.size if mask is None else np.count_nonzero(mask))
    tolerance = 1e-7 if fake.dtype == np.float32 else 1e-9  # SynthRAD computes in float32 if the translation is float32
    assert figures == pytest.approx(known(expected), abs=tolerance)


def test_figures_are_none_for_an_empty_mask() -> None:
    volume = np.zeros((8, 8, 8), np.int16)
    figures = volume_figures(volume, volume + 1, volume, (-1024, 3071))
    assert figures == {"mae": None, "psnr": None, "ms_ssim": None, "ssim": None, "n_voxels": 0}


def test_voxels_outside_the_mask_have_no_effect() -> None:
    case = CASES["metrics"][0]
    target, fake, mask = (case[name].numpy() for name in ("target", "fake", "mask"))
    changed = np.where(mask > 0, fake, 2000)
    assert volume_figures(target, changed, mask, (-1024, 3071)) == volume_figures(target, fake, mask, (-1024, 3071))


def test_large_volumes_need_less_than_two_float32_copies() -> None:
    target = np.zeros((100, 128, 128), np.int16)
    tracemalloc.start()
    volume_figures(target, target + np.int16(1), None, (-1024, 3071))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * 4 * target.size


def test_mean_and_deviation_over_patients() -> None:
    case = CASES["summary"]
    result = summary(dict(zip("abcde", case["figures"], strict=True)))
    assert result == {"mean": pytest.approx(case["mean"]), "std": pytest.approx(case["std"])}


def test_summary_leaves_out_figures_that_are_not_defined() -> None:
    expected, patients = EXTRAS["summary"], {}
    for name in expected["patients"]:
        case = EXTRAS["metrics"][name]
        patients[name] = known({"mae": case["mae"]} | case["range_-1024_3071"]) | {"ms_ssim_2d": None}
    result = summary(patients)
    assert result["mean"]["ms_ssim_2d"] is None
    assert result["std"]["ms_ssim_2d"] is None
    for of in ("mean", "std"):
        for name in ("mae", "psnr", "ssim", "ms_ssim"):
            assert result[of][name] == pytest.approx(expected[name][of], rel=1e-9)
