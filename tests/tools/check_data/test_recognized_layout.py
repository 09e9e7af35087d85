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


BOTH = ["data.source_folder=[{split}_rgb,{split}_depth]", "data.source_channels=4"]
WITH_LABELS = ["data.source_folder=[{split}_label,{split}_height]", "data.source_channels=1"]
TRAIN, TRAIN_AND_VAL, TRAIN_AND_TEST = {"train": True}, {"train": True, "val": True}, {"test": False, "train": True}


@pytest.mark.parametrize(
    ("folders", "overrides", "n_classes", "splits"),
    [
        ("train_A train_B val_A val_B", [], 0, TRAIN_AND_VAL),
        ("train_label train_img test_label", [], ANY_CLASSES, TRAIN_AND_TEST),
        ("train_rgb train_depth train_label", BOTH, 0, TRAIN),
        ("colors", ["data.source_folder=colors"], 0, TRAIN),
        ("train_label train_height", WITH_LABELS, ANY_CLASSES, TRAIN),
    ],
)
def test_folders_are_recognized(
    tmp_path: Path, folders: str, overrides: list[str], n_classes: int, splits: dict[str, bool]
) -> None:
    config, found = data_set_in(write(tmp_path, *folders.split()), None, overrides)
    assert (config.data.layout, config.data.n_classes, found) == ("paired_folders", n_classes, splits)


def test_folders_that_are_named_with_a_number_of_classes_hold_label_maps(tmp_path: Path) -> None:
    config, splits = data_set_in(write(tmp_path, "masks/train"), 7, ["data.source_folder=masks/{split}"])
    assert (config.data.n_classes, splits) == (7, TRAIN)
    with pytest.raises(UserError, match=r"holds no folder \{split\}_rgb: check data\.source_folder$"):
        data_set_in(tmp_path, None, BOTH[:1])
