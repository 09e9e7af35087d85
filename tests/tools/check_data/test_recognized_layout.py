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


@pytest.mark.parametrize(
    ("folders", "overrides", "expected"),
    [
        (["train_A", "train_B", "val_A", "val_B"], [], ("paired_folders", 0, {"train": True, "val": True})),
        (
            ["train_label", "train_img", "test_label"],
            [],
            ("paired_folders", ANY_CLASSES, {"test": False, "train": True}),
        ),
        (["train", "test"], [], ("side_by_side", 0, {"test": False, "train": True})),
        (
            ["train_rgb", "train_depth", "train_label"],
            ["data.source_folder=[{split}_rgb,{split}_depth]", "data.source_channels=4"],
            ("paired_folders", 0, {"train": True}),
        ),
        (
            ["rgb/train", "rgb/val"],
            ["data.source_folder=rgb/{split}"],
            ("paired_folders", 0, {"train": True, "val": True}),
        ),
        (["colors"], ["data.source_folder=colors"], ("paired_folders", 0, {"train": True})),
        (
            ["train_label", "train_height"],
            ["data.source_folder=[{split}_label,{split}_height]", "data.source_channels=1"],
            ("paired_folders", ANY_CLASSES, {"train": True}),
        ),
    ],
)
def test_layouts_are_recognized(
    tmp_path: Path, folders: list[str], overrides: list[str], expected: tuple[str, int, dict[str, bool]]
) -> None:
    config, splits = data_set_in(write(tmp_path, *folders), None, overrides)
    assert (config.data.layout, config.data.n_classes, splits) == expected


def test_folders_that_are_named_with_a_number_of_classes_hold_label_maps(tmp_path: Path) -> None:
    config, splits = data_set_in(write(tmp_path, "masks/train"), 7, ["data.source_folder=masks/{split}"])
    assert (config.data.n_classes, splits) == (7, {"train": True})


def test_a_folder_that_is_named_and_missing_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no folder \{split\}_rgb: check data\.source_folder$"):
        data_set_in(write(tmp_path, "train_A"), None, ["data.source_folder=[{split}_rgb,{split}_depth]"])
