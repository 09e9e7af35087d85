from pathlib import Path

import numpy as np
import pytest

from data.files.image_files import find_images
from data.folder_store import misplaced_folder
from tests.conftest import save_image
from tools.check_data.recognized_layout import data_set_in


@pytest.mark.parametrize(
    ("present", "missing", "remedy"),
    [
        ("train_A", "train_A/train_A", "; did you mean {0}/train_A? Set data.root={0}"),
        ("train", "train/train", "; did you mean {0}/train? Set data.root={0}"),
        ("facades/train", "train", "; did you mean {0}/facades/train? Set data.root={0}/facades"),
        (
            "trainA",
            "train_A",
            "; did you mean {0}/trainA? data.source_folder={{split}}A or data.target_folder={{split}}A",
        ),
        ("A/train", "train_A", "; did you mean {0}/A/train? data.source_folder=A/{{split}}"),
        ("train", "train_B", "; train with both halves in each file is data.layout=side_by_side"),
        ("train_A", "train", "; train_A and train_B are data.layout=paired_folders"),
        ("train_label", "train_labels", ""),
        ("photos/holiday", "holiday", ""),
        ("x", "nowhere/train_A", ""),
    ],
)
def test_a_misplaced_folder_is_found(tmp_path: Path, present: str, missing: str, remedy: str) -> None:
    (tmp_path / present).mkdir(parents=True)
    found = misplaced_folder(tmp_path / missing)
    assert found.startswith(remedy.format(tmp_path))
    assert bool(found) == bool(remedy)


def test_images_in_a_folder_of_a_split_are_no_photographs_to_convert(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "1.jpg").touch()
    problems: list[str] = []
    find_images(tmp_path / "train" / "train", problems)
    assert f"did you mean {tmp_path}/train? Set data.root={tmp_path}" in problems[0]
    assert "from-photos" not in problems[0]


SYSTEM_NAMES = [
    *("@eaDir", "@EADIR", "@Recycle", "@Recently-Snapshot", "#recycle", "#snapshot", "~snapshot", "$RECYCLE.BIN"),
    *("lost+found", "__MACOSX", "System Volume Information", ".snapshot", ".Trash-1000", ".ipynb_checkpoints"),
]


def test_folders_of_systems_hold_no_images(tmp_path: Path) -> None:
    for name in SYSTEM_NAMES:
        save_image(tmp_path / name / "a" / "1.png", np.zeros((4, 8, 3), np.uint8))
        save_image(tmp_path / "train" / name / "1.png" / "SYNOPHOTO_THUMB_M.png", np.zeros((4, 8, 3), np.uint8))
    images = ["1", "@user/2", "#tag/3", "recycle/4", "snapshot/5"]
    for name in ("._1", *images):
        save_image(tmp_path / "train" / f"{name}.png", np.zeros((4, 8, 3), np.uint8))
    assert sorted(find_images(tmp_path / "train", [])) == sorted(images)
    config, splits = data_set_in(tmp_path, None, [])
    assert (config.data.layout, splits) == ("side_by_side", {"train": True})
