"""Images that are not 8-bit RGB, for tests."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

GEO_TAGS: list[tuple[int, int, int | None, Any, bool]] = [
    (33550, 12, 3, (10.0, 10.0, 0.0), True),
    (33922, 12, 6, (0.0, 0.0, 0.0, 5e5, 4e6, 0.0), True),
    (34735, 3, 4, (1, 1, 0, 0), True),
    (34737, 2, None, "WGS 84|", True),
]


def tifffile() -> ModuleType:
    """The package tifffile; skips the test where it is not installed."""
    module: ModuleType = pytest.importorskip("tifffile")
    return module


def bands(seed: int, height: int = 32, width: int = 40) -> np.ndarray:
    """(4, height, width) uint16."""
    rng = np.random.default_rng(seed)
    return (_spot(seed, height, width) * [[[4000]], [[9000]], [[20]], [[60000]]]).astype(np.uint16) + rng.integers(
        0, 50, (4, height, width)
    ).astype(np.uint16)


def heights(seed: int, height: int = 32, width: int = 40) -> np.ndarray:
    """(height, width) float32, from about -20 to 480."""
    return (_spot(seed, height, width) * 500 - 20).astype(np.float32)


def _spot(seed: int, height: int, width: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    center = rng.uniform(0, height), rng.uniform(0, width)
    spot: np.ndarray = np.exp(-((rows - center[0]) ** 2 + (columns - center[1]) ** 2) / 100)
    return spot


def save_npy(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, pixels)
