"""The jobs of train.py, and the command that is printed at the end of a training."""

import re
import shlex
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from configs.load import load_config
from tests.conftest import save_image
from tests.runs import run, translate, translation_script
from training import launch
from training.launch import translation_command
from training.resume import ResumeOptions
from utils.errors import Interrupted


@pytest.mark.parametrize(
    ("splits", "settings", "options"),
    [
        (["test", "val"], [], []),
        (["val"], [], ["--split", "val"]),
        (["dev"], ["data.validation_split=dev"], ["--split", "dev"]),
        (["dev"], ["data.test_split=dev"], []),
        ([], ["train.validation_share=0.5"], ["--split", "held_back"]),
        ([], [], ["--input", "FOLDER"]),
    ],
    ids=str,
)
def test_the_command_names_a_split_that_exists(
    tiny_config: Path, tmp_path: Path, splits: list[str], settings: list[str], options: list[str]
) -> None:
    root = tmp_path / "a set"
    for split in ("train", *splits):
        save_image(root / split / "x.png", np.zeros((2, 4, 3), np.uint8))
    data = ["data.layout=side_by_side", f"data.root={root}", "data.instance_edges=false"]
    command = translation_command(load_config(tiny_config, [*data, *settings]), Path("runs/a run"))
    assert shlex.split(command) == ["python", "test.py", "--checkpoint", "runs/a run", *options]


def test_the_printed_command_runs_as_printed(
    trained_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(trained_config)
    found = re.search("^finished: python test.py (.*)$", capfd.readouterr().out, re.MULTILINE)
    assert found is not None
    translation_script()  # is read from the working directory
    monkeypatch.chdir(tmp_path)
    translate(*shlex.split(found[1]))
    assert len(list((tmp_path / "results").glob("tiny/*/*.png"))) > 0


@pytest.mark.parametrize("job", ["train", "dry-run", "smoke"])
def test_each_job_is_done_in_the_processes_of_the_run(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, job: launch.Job
) -> None:
    done = []
    for name in ("train", "dry_run", "smoke"):
        monkeypatch.setattr(launch, name, lambda config, world, *_, name=name: done.append((name, world.is_main)))
    launch.launch(load_config(tiny_config, []), ResumeOptions(), job)
    assert done == [(job.replace("-", "_"), True)]


def test_a_signal_during_a_smoke_test_names_no_step_that_could_be_continued_from(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "smoke", Mock(side_effect=Interrupted(15, 1)))
    with pytest.raises(Interrupted) as interrupted:
        launch.launch(load_config(tiny_config, []), ResumeOptions(), "smoke")
    assert str(interrupted.value) == str(Interrupted(15))


def test_without_its_data_set_and_with_instance_maps_folders_are_named(tiny_config: Path, tmp_path: Path) -> None:
    settings = ["data.layout=paired_folders", f"data.root={tmp_path / 'gone'}", "data.n_classes=5"]
    config = load_config(tiny_config, settings)
    assert translation_command(config, Path("runs/x")).endswith("runs/x --input FOLDER --instances DIR")
