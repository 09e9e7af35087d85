"""Folders with volumes are recognized, and faults of volumes end in usable lines."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813

from tests.reliability.command_line import CommandLine
from tests.volumes import save_volume
from tools.check_data import __main__ as check_data
from tools.convert_data.drawn_volumes import write_drawn_volumes


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("drawn") / "heads"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("data.drawn_volumes._MR_NOISE", 0.08)  # with strong noise, displacements are not clear
        write_drawn_volumes(root, 3, 48)
    return root


@pytest.fixture
def heads(drawn: Path, tmp_path: Path) -> Path:
    """A copy of three drawn patients, one in each split."""
    return shutil.copytree(drawn, tmp_path / "heads")


def check(command_line: CommandLine, root: Path, *settings: str) -> tuple[int, list[str]]:
    """Return the exit code and the lines of standard output."""
    cache = f"data.cache={root.parent / 'cache'}"
    code, out, _ = command_line.run(check_data.main, str(root), cache, *settings)
    return code, out.splitlines()


def move(root: Path, patterns: dict[str, str]) -> None:
    """Move the volumes of the split train. {} stands for the name of the patient."""
    for folder, pattern in patterns.items():
        for path in sorted((root / folder).iterdir()):
            target = root / (pattern.format(path.name.partition(".")[0]) + ".nii.gz")
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
    for place in list(root.iterdir()):
        if place.name.startswith(("val", "test")) or not any(place.iterdir()):
            shutil.rmtree(place)


def edit(path: Path, shift: int) -> None:
    image = sitk.ReadImage(str(path))
    save_volume(path, np.roll(sitk.GetArrayFromImage(image), shift, 1), image.GetSpacing())


def test_a_good_data_set_has_no_warning(heads: Path, command_line: CommandLine) -> None:
    code, lines = check(command_line, heads)
    assert (code, lines[-1]) == (0, "no problem in train, val, test")
    folders = "data.source_folder={split}_A data.target_folder={split}_B data.mask_folder={split}_mask"
    assert lines[0] == f"assuming MR and CT with {folders}. To train, add this to --config configs/mr_to_ct.yaml"
    assert "train: geometry: 48x48x32 voxels of 4x4x4 mm, stored as LPS" in lines


def test_faults_are_problems_or_warnings(heads: Path, command_line: CommandLine) -> None:
    for folder in ("A", "B", "mask"):
        shutil.copy(heads / f"train_{folder}" / "p001.nii.gz", heads / f"val_{folder}" / "p001.nii.gz")
    edit(heads / "train_B" / "p001.nii.gz", 4)
    volume = heads / "test_B" / "p003.nii.gz"
    volume.write_bytes(volume.read_bytes()[:-100])
    code, lines = check(command_line, heads, "data.target_range=[-1024,3071]")
    assert (code, lines[-1]) == (2, "1 problem in train, val, test; 2 warnings")
    assert f"{volume}: is damaged or incomplete. Copy it again." in lines
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert warnings == [
        "warning: train and val share patients. Keep each patient in one split (p001)",
        "warning: train: targets seem to be displaced in 1 of 1 patients, in slices, rows and columns: "
        "p001 by (0, 4, 0). Register them",
    ]


TREES = {
    "data.source_folder={patient}/mr data.target_folder={patient}/ct data.mask_folder={patient}/mask": (
        {"train_A": "AB/{}/mr", "train_B": "AB/{}/ct", "train_mask": "AB/{}/mask"}
    ),
    "data.layout=unpaired_volumes": {"train_mask": "old/{}", "train_B": "train_B/other_{}"},
}


@pytest.mark.parametrize("settings", TREES)
def test_trees_of_patients_are_recognized(heads: Path, command_line: CommandLine, settings: str) -> None:
    move(heads, TREES[settings])
    (heads / "overview.png").touch()
    code, lines = check(command_line, heads)
    assert code == 0
    assert f" {settings}. " in lines[0]
    assert lines[-1].startswith("no problem in train")


def test_volumes_of_one_kind_end_in_one_line(heads: Path, command_line: CommandLine) -> None:
    (line,) = command_line.refusal(check_data.main, str(heads / "train_A"))
    assert "train_A: holds volumes, but not as train_A/p001.nii.gz" in line
    assert "--config configs/mr_to_ct_small.yaml data.root=FOLDER data.source_folder={patient}/NAME" in line
