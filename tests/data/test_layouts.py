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
from tests.conftest import save_image
from utils.signatures import argument_names

SETTINGS = [field.name for field in fields(DataConfig)]
FACTS = {"seed", "needs_targets", "needs_instances", "needs_features", "needs_labels", "reader", "target_scale"}
FACTS |= {"patterns", "slice_rule"}


def test_the_setting_takes_the_names_of_the_registry_and_facts_have_other_names_than_settings() -> None:
    assert get_args(get_type_hints(DataConfig)["layout"]) == tuple(LAYOUTS)
    assert not FACTS & {*SETTINGS}


@pytest.mark.parametrize("layout", LAYOUTS.values())
def test_a_layout_takes_settings_by_their_names(layout: Any) -> None:
    assert argument_names(layout.open) - {"split"} <= {*SETTINGS} | FACTS
    assert argument_names(layout.has_split) - {"split"} <= {*SETTINGS} | FACTS


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
