from pathlib import Path

import numpy as np
import pytest

from tests.conftest import save_image
from tools.check_data.recognized_layout import ANY_CLASSES, data_set_in
from utils.errors import UserError


def write(root: Path, *folders: str) -> Path:
    for folder in folders:
        save_image(root / folder / "x.png", np.zeros((4, 8, 3), np.uint8))
    return root


TRAIN, TRAIN_AND_VAL, TRAIN_AND_TEST = {"train": True}, {"train": True, "val": True}, {"test": False, "train": True}


@pytest.mark.parametrize(
    ("folders", "n_classes", "splits"),
    [
        ("train_A train_B val_A val_B", 0, TRAIN_AND_VAL),
        ("train_A train_B train_A_label", 0, TRAIN),
        ("train_label train_img test_label", ANY_CLASSES, TRAIN_AND_TEST),
    ],
)
def test_folders_are_recognized(tmp_path: Path, folders: str, n_classes: int, splits: dict[str, bool]) -> None:
    config, found = data_set_in(write(tmp_path, *folders.split()), None, [])
    assert (config.data.layout, config.data.n_classes, found) == ("paired_folders", n_classes, splits)


def test_folders_with_other_names_need_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.source_folder: needs --config"):
        data_set_in(write(tmp_path, "train_rgb"), None, ["data.source_folder={split}_rgb"])
