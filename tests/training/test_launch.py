"""The command that is printed at the end of a training runs as printed."""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from configs.load import load_config
from tests.conftest import save_image
from tests.runs import run, translate, translation_script
from training.launch import translation_command


@pytest.mark.parametrize(
    ("splits", "settings", "options"),
    [
        (["test", "val"], [], []),
        (["val"], [], ["--split", "val"]),
        (["dev"], ["data.validation_split=dev"], ["--split", "dev"]),
        (["dev"], ["data.test_split=dev"], []),
        ([], [], ["--input", "FOLDER"]),
    ],
    ids=str,
)
def test_the_printed_command_names_a_split_that_exists(
    tiny_config: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    splits: list[str],
    settings: list[str],
    options: list[str],
) -> None:
    root = tmp_path / "a set"
    for split in ("train", *splits):
        save_image(root / split / "x.png", np.random.default_rng(0).integers(0, 256, (32, 64, 3), np.uint8))
    data = ["data.layout=side_by_side", f"data.root={root}", "data.instance_edges=false", "run.name=a run"]
    run(tiny_config, *data, "train.max_steps=1", *settings)
    found = re.search("^finished: python test.py (.*)$", capfd.readouterr().out, re.MULTILINE)
    assert found is not None
    arguments = shlex.split(found[1])
    assert arguments == ["--checkpoint", str(tmp_path / "runs" / "a run"), *options]
    translation_script()  # is read from the working directory
    monkeypatch.chdir(tmp_path)
    shutil.copytree(root / "train", tmp_path / "FOLDER")
    translate(*arguments)
    assert len(list((tmp_path / "results").glob("a run/*/x.png"))) == 1


def test_without_its_data_set_and_with_instance_maps_folders_are_named(tiny_config: Path, tmp_path: Path) -> None:
    settings = ["data.layout=paired_folders", f"data.root={tmp_path / 'gone'}", "data.n_classes=5"]
    config = load_config(tiny_config, settings)
    assert translation_command(config, Path("runs/x")).endswith("runs/x --input FOLDER --instances DIR")
