"""Data sets and images for tests, those that are not 8-bit RGB among them."""

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from tests.conftest import save_image

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


def noise_image(seed: int, height: int = 24, width: int = 32) -> torch.Tensor:
    """(3, height, width) uint8."""
    return torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


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


def write_data_set(root: Path, maps: Iterable[str], width: int = 64) -> None:
    """Write two samples for each split. maps: Suffixes of the folders' names; "" holds joined pairs."""
    rng = np.random.default_rng(0)
    for split, name in product(("train", "val", "test"), ("1", "2")):
        labels = rng.integers(0, 34, (4, width // 16), dtype=np.uint8).repeat(16, 0).repeat(16, 1)
        photo = rng.integers(0, 256, (64, width, 3), dtype=np.uint8)
        wide, halves = labels.astype(np.uint16), np.concatenate([photo, photo], axis=1)
        pixels: dict[str, np.ndarray] = {"_label": labels, "_inst": wide, "_depth": wide, "": halves}
        for kind in maps:
            save_image(root / f"{split}{kind}" / f"{name}.png", pixels.get(kind, photo))


def save_npy(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, pixels)
