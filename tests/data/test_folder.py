from pathlib import Path

import numpy as np
import pytest

from data.batch import DataError
from data.files.image_files import find_images
from data.folder import data_set_folder
from tests.conftest import save_image
from tools.check_data.recognized_layout import data_set_in

SYSTEM_NAMES = ["@EADIR", "#recycle", "$RECYCLE.BIN", "lost+found", "System Volume Information", ".snapshot"]


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


def test_a_data_set_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.png").touch()
    assert str(data_set_folder(str(tmp_path)) / "val") == str(tmp_path / "val")
    with pytest.raises(DataError, match=r"data\.root: no such folder: .*nowhere"):
        data_set_folder(str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"data\.root: is a file: .*x\.png\. Name its folder"):
        data_set_folder(str(tmp_path / "x.png"))
