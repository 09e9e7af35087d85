"""Volumes of patients as files, written by SimpleITK."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK as sitk  # noqa: N813
import torch
from torch import Tensor

from data.drawn_volumes import draw_patient

REFERENCE = Path(__file__).parent / "reference"
CASES: dict[str, Any] = torch.load(REFERENCE / "volumes_reference.pt", weights_only=True)
EXTRAS: dict[str, Any] = torch.load(REFERENCE / "volumes_extras_reference.pt", weights_only=True)
SERIES = next(case for case in CASES["files"] if case["name"] == "series")
SIZE = (8, 20, 16)  # depth, height and width of drawn patients
OF_VOLUMES = ["data.layout=paired_volumes", "data.root=.", "data.preprocess=none", "data.instance_edges=false"]
OF_VOLUMES += ["data.source_channels=1", "data.target_channels=1", "data.target_range=[-1024,3071]"]
OF_VOLUMES += ["data.source_range=volume"]
RAS = (-1, 0, 0, 0, -1, 0, 0, 0, 1)


def save_volume(
    path: Path,
    array: np.ndarray | Tensor,
    spacing: Sequence[float] = (1, 1, 1),
    origin: Sequence[float] = (0, 0, 0),
    direction: Sequence[float] = (1, 0, 0, 0, 1, 0, 0, 0, 1),
) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    image = sitk.GetImageFromArray(np.asarray(array))
    image.SetSpacing(list(map(float, spacing)))
    image.SetOrigin(list(map(float, origin)))
    image.SetDirection(list(map(float, direction)))
    sitk.WriteImage(image, str(path))
    return path


def noise(seed: int, size: Sequence[int] = (4, 5, 6)) -> np.ndarray:
    return np.random.default_rng(seed).integers(-1000, 2000, size).astype(np.int16)


def save_files(folder: Path, files: Mapping[str, Tensor]) -> Path:
    """Write the bytes of a reference case."""
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_bytes(content.numpy().tobytes())
    return folder


def save_patients(root: Path, splits: Mapping[str, int], suffix: str = ".nii.gz", **geometry: Any) -> Path:
    """Write drawn patients p001, p002 and so on to ROOT/SPLIT_A, SPLIT_B and SPLIT_mask."""
    number = 0
    for split, n_patients in splits.items():
        for _ in range(n_patients):
            number += 1
            patient = draw_patient(0, number, SIZE)
            for kind, array in (("A", patient.mr), ("B", patient.ct), ("mask", patient.mask)):
                save_volume(root / f"{split}_{kind}" / f"p{number:03}{suffix}", array, **geometry)
    return root
