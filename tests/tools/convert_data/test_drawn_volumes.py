"""Drawn heads are written as a data set of volumes."""

import sys
from pathlib import Path

import numpy as np
import pytest
import SimpleITK

from data.drawn_volumes import draw_patient
from tests.tools.convert_data.conftest import Convert


def test_volumes_are_written_by_split_and_again_equal(tmp_path: Path, convert: Convert) -> None:
    arguments = ("--patients", "5", "--size", "24")
    code, out = convert("drawn-volumes", tmp_path / "heads", *arguments)
    assert code == 0
    assert out.splitlines() == [
        f"{tmp_path}/heads: 3 patients in train, 1 patient in val, 1 patient in test",
        f"to train on them: python train.py --config configs/mr_to_ct_small.yaml data.root={tmp_path}/heads",
    ]
    files = sorted(file.relative_to(tmp_path / "heads") for file in (tmp_path / "heads").rglob("*.gz"))
    numbers = {"train": (1, 2, 3), "val": (4,), "test": (5,)}
    folders = [(f"{split}_{side}", ids) for split, ids in numbers.items() for side in ("A", "B", "mask")]
    assert files == sorted(Path(folder, f"p00{number}.nii.gz") for folder, ids in folders for number in ids)
    patient = draw_patient(0, 4, (16, 24, 24))
    for side, voxels in (("A", patient.mr), ("B", patient.ct), ("mask", patient.mask)):
        image = SimpleITK.ReadImage(tmp_path / "heads" / f"val_{side}" / "p004.nii.gz")
        assert image.GetSpacing() == (8.0, 8.0, 8.0)
        read = SimpleITK.GetArrayFromImage(image)
        assert read.dtype == voxels.dtype
        assert np.array_equal(read, voxels)
    convert("drawn-volumes", tmp_path / "again", *arguments)
    assert all((tmp_path / "heads" / file).read_bytes() == (tmp_path / "again" / file).read_bytes() for file in files)


def test_refusals(tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch) -> None:
    assert convert.refusal("drawn-volumes", tmp_path) == f"error: {tmp_path}: already exists. Choose another folder."
    assert "3 to 999" in convert.refusal("drawn-volumes", tmp_path / "new", "--patients", "2")
    monkeypatch.setitem(sys.modules, "SimpleITK", None)
    assert "volumes need SimpleITK" in convert.refusal("drawn-volumes", tmp_path / "new")
    assert not (tmp_path / "new").exists()
