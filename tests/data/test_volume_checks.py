"""Warnings about patients' volumes name the fault, the patients and a remedy. Good volumes have none."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from data.drawn_volumes import draw_patient
from data.folder import LocalFolder
from data.layout import Layout
from data.volume_cache import AXES, Axis
from data.volume_checks import describe_volumes, displaced_targets, middle_slices, volume_displacement, volume_warnings
from data.volumes import PairedVolumes, Patients, SliceRule, UnpairedVolumes
from tests.volumes import save_volume

HU = [-1024, 3071]
Volumes = dict[str, np.ndarray]


def patient(seed: int) -> Volumes:
    """Return an MR, a CT and a mask, (8, 12, 10) each. The body is a box with a hole."""
    random, mask = np.random.default_rng(seed), np.zeros((8, 12, 10), np.uint8)
    mask[:, 2:-2, 2:-2] = 1
    ct = np.where(mask > 0, random.integers(0, 80, mask.shape), -1000).astype(np.int16)
    ct[3, 5, 5] = -1000
    return {"A": random.integers(0, 500, mask.shape).astype(np.int16), "B": ct, "mask": mask}


def opened(
    root: Path, patients: dict[str, Volumes], spacing: float = 2.0, axis: Axis | Literal["all"] = "axial"
) -> PairedVolumes:
    """Write patients, and open them as a split."""
    for name, volumes in patients.items():
        for folder, array in volumes.items():
            save_volume(root / folder / f"{name}.nii", array, (1, 1.5, spacing))
    patterns = {"source": "A", "target": "B", "mask": "mask"}
    rule = SliceRule(AXES if axis == "all" else (axis,))
    found = Patients.find(LocalFolder(root), "train", patterns, needs_all=True)
    return PairedVolumes(found, root / "cache", rule)


def warnings(axis: str = "axial", target_range: object = HU, **splits: Layout) -> list[str]:
    return list(volume_warnings(splits, axis, "volume", target_range))


def test_good_volumes_have_no_warning_and_are_described(tmp_path: Path) -> None:
    train = opened(tmp_path / "train", {"p1": patient(1), "p2": patient(2)})
    assert not warnings(train=train, val=opened(tmp_path / "val", {"p3": patient(3)}))
    _, (_, geometry), (_, values) = describe_volumes(train.patients, 1, has_windows=False)
    assert geometry == "10x12x8 voxels of 1x1.5x2 mm, stored as LPS"
    assert values == "source 0 to 499, target -1000 to 79"
    assert {("geometry", geometry), ("values", values)} <= set(train.notes)


Fault = tuple[str, Callable[[Volumes], np.ndarray], str]
FAULTS: list[Fault] = [  # folder, its values, warning
    ("mask", lambda v: 0 * v["mask"], "the mask is empty, so no slice is used. Make a new mask"),
    ("B", lambda v: (v["B"] + 1024).clip(0), "the target looks like HU + 1024. Subtract 1024"),
    (
        "B",
        lambda v: v["B"] * v["mask"],
        "the target is 0 outside the body, but air is -1000 HU. Set these voxels to -1024",
    ),
    (
        "B",
        lambda v: (v["B"] // 10).clip(0).astype(np.uint8),
        "the target has no value below -500, but air is -1000 HU. Store HU, or set data.target_range, or swap the "
        "sides with data.direction",
    ),
    ("A", lambda v: 0 * v["A"] + 7, "all voxels of the source are 7. Export this volume again"),
    ("A", lambda v: v["B"], "identical volumes. Remove the copies (source of p2 is target of p2)"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault[2][:30])
def test_a_fault_of_a_volume_is_named(tmp_path: Path, fault: Fault) -> None:
    folder, values, text = fault
    broken = patient(2)
    broken[folder] = values(broken)
    train = opened(tmp_path, {"p1": patient(1), "p2": broken})
    assert warnings(train=train) == [f"train: {text}" + " (p2)" * ("copies" not in text)]
    if "HU" in text:
        assert not warnings(train=train, target_range=[0, 5000])
        assert not warnings(train=train, target_range=None)


def test_a_volume_without_orientation_is_named(tmp_path: Path) -> None:
    opened(tmp_path, {"p1": patient(1)})
    for path in tmp_path.glob("*/p1.nii"):
        content = bytearray(path.read_bytes())
        content[252:256] = bytes(4)  # qform_code and sform_code
        path.write_bytes(content)
    (line,) = warnings(train=opened(tmp_path, {}))
    assert line.startswith("train: a file states no orientation, so left and right are unknown. ")


def test_patients_in_two_splits_are_found_by_name_and_by_content(tmp_path: Path) -> None:
    train = opened(tmp_path / "train", {"p1": patient(1), "p2": patient(2), "p3": patient(3)})
    val = opened(tmp_path / "val", {"p1": patient(4), "q": patient(2)})
    assert warnings(train=train, val=val) == [
        "train and val share patients. Keep each patient in one split (p1)",
        "train and val: identical volumes. Remove the copies "
        "(source of p2 is source of q, target of p2 is target of q)",
    ]
    assert "the target has no value below -500" in warnings(train=UnpairedVolumes(train, val))[0]


@pytest.mark.parametrize(
    ("axis", "spacing", "has_warning"),
    [("axial", 3.1, True), ("axial", 2.9, False), ("coronal", 9.0, False), ("all", 2.0, True)],
)
def test_the_distance_of_slices_is_compared_between_patients(
    tmp_path: Path, axis: Axis, spacing: float, has_warning: bool
) -> None:
    train = opened(tmp_path / "train", {"p1": patient(1)}, axis=axis)
    val = opened(tmp_path / "val", {"p2": patient(2)}, spacing, axis=axis)
    found = warnings(axis, train=train, val=val)
    assert ["distance of slices" in line for line in found] == [True] * has_warning
    if spacing == 3.1:
        assert found[0].startswith("the distance of slices is 2 mm in train p1 and 3.1 mm in val p2. ")


def test_displacements_are_measured_in_three_directions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data.drawn_volumes._MR_NOISE", 0.08)
    drawn = draw_patient(0, 1, (40, 64, 64))
    assert volume_displacement(drawn.mr, drawn.ct) == (0, 0, 0)
    for shift in ((1, 0, 0), (-2, 3, -4)):
        assert volume_displacement(drawn.mr, np.roll(drawn.ct, shift, (0, 1, 2))) == shift
    random = np.random.default_rng(0)
    assert volume_displacement(random.normal(size=(9, 64, 64)), random.normal(size=(9, 64, 64))) == (0, 0, 0)
    assert volume_displacement(drawn.mr[:7], np.roll(drawn.ct[:7], 9, 1)) == (0, 0, 0)  # too few slices
    moved = np.roll(drawn.ct, (0, 1, 3), (0, 1, 2))
    train = opened(tmp_path, {"p1": {"A": drawn.mr, "B": moved, "mask": drawn.mask}})
    (line,) = displaced_targets(train)
    assert "in 1 of 1 patients, in slices, rows and columns: p1 by (0, 1, 3). " in line


def test_the_middle_slice_of_each_axis_represents_a_patient(tmp_path: Path) -> None:
    middle = middle_slices(opened(tmp_path, {"p1": patient(1), "p2": patient(2)}, axis="all"))
    assert list(middle.names) == [
        f"{name}/{place}" for name in ("p1", "p2") for place in ("axial/0004", "coronal/0006", "sagittal/0005")
    ]
