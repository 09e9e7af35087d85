"""The registry of layouts, the settings that open one, and the folder of a data set."""

from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from configs.load import load_config
from configs.schema import DataConfig
from configs.splits import has_split, open_split
from data import LAYOUTS
from data.batch import DataError
from data.files.image_files import find_images
from data.folder import data_set_folder
from tests.conftest import save_image
from tools.check_data.recognized_layout import data_set_in
from utils.signatures import argument_names

SETTINGS = [field.name for field in fields(DataConfig)]
FACTS = {"seed", "needs_targets", "needs_instances", "needs_features", "needs_labels", "reader", "target_scale"}


def test_the_setting_takes_the_names_of_the_registry_and_facts_have_other_names_than_settings() -> None:
    assert get_args(get_type_hints(DataConfig)["layout"]) == tuple(LAYOUTS)
    assert not FACTS & {*SETTINGS}


@pytest.mark.parametrize("layout", LAYOUTS.values())
def test_a_layout_takes_settings_by_their_names(layout: Any) -> None:
    assert argument_names(layout.open) - {"split"} <= {*SETTINGS} | FACTS
    assert argument_names(layout.has_split) - {"split"} <= {*SETTINGS}


@pytest.mark.parametrize(
    ("settings", "folders"),
    [
        (["data.n_classes=5", "data.instance_edges=true"], ["train_label", "train_img", "train_inst"]),
        (["data.direction=BtoA"], ["train_B", "train_A"]),
        (["data.source_folder=maps", "data.target_folder={split}/photos"], ["maps", "train/photos"]),
        (["features.n_channels=3", "features.origin=precomputed"], ["train_A", "train_B", "train_feat"]),
    ],
    ids=" ".join,
)
def test_the_folders_of_paired_folders(
    tiny_config: Path, tmp_path: Path, settings: list[str], folders: list[str]
) -> None:
    for folder in folders:
        save_image(tmp_path / folder / "x.png", np.zeros((2, 4) if "label" in folder else (2, 4, 3), np.uint8))
    data = ["data.layout=paired_folders", f"data.root={tmp_path}", "data.instance_edges=false"]
    config = load_config(tiny_config, [*data, *settings])
    layout = open_split(config, "train", needs_targets=True)
    assert [folder.path for folder in layout.folders] == [tmp_path / folder for folder in folders]
    assert has_split(config, "train")
    assert not has_split(config, "val")


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
