"""log.txt has what one looks for a year later."""

import platform
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import train
from tests.conftest import save_image
from tests.reliability.faults import PLACES, Fault, replacement
from tests.runs import run
from utils.cli import run_entry_point


def messages(config: Path) -> list[str]:
    """The lines of log.txt without their times."""
    lines = (config.parent / "runs" / "tiny" / "log.txt").read_text().splitlines()
    return [line.split(" ", 2)[2] for line in lines]


def test_it_begins_with_the_versions_and_ends_with_finished(tiny_config: Path) -> None:
    run(tiny_config)
    first, *_, last = messages(tiny_config)
    assert first.startswith("pairgan ")
    assert f"Python {platform.python_version()}, torch {torch.__version__}" in first
    assert last == "finished at step 4"


def test_it_has_what_a_resumed_run_starts_from_and_what_has_changed(tiny_config: Path, label_data_set: Path) -> None:
    settings = ["data.layout=paired_folders", f"data.root={label_data_set}", "data.n_classes=5"]
    run(tiny_config, *settings, "data.preprocess=none")
    n_before = len(messages(tiny_config))
    save_image(label_data_set / "train_img" / "b.jpg", np.full((32, 64, 3), 9, np.uint8))
    run(tiny_config, *settings, "data.preprocess=none", "train.max_steps=5", "--accept-changed-data")
    second = messages(tiny_config)[n_before:]
    assert second[0].startswith("pairgan ")
    assert second[1] == "changed since: train.max_steps 4 -> 5"
    assert second[2].startswith("the train split has changed: 1 names or files")
    assert second[3] == f"resuming from {tiny_config.parent / 'runs' / 'tiny' / 'checkpoint-00000004.pt'}"
    assert second[-1] == "finished at step 5"


def test_it_has_the_signal_that_stopped_a_run_and_the_place_of_an_archived_one(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name = PLACES["forward"]
    with monkeypatch.context() as context:
        context.setattr(owner, name, replacement(Fault("forward", "SIGUSR1", call=2), getattr(owner, name)))
        context.setattr(sys, "argv", ["train.py", "--config", str(tiny_config), "train.max_steps=1000"])
        assert run_entry_point(train.main) == 138
    assert messages(tiny_config)[-1] == "stopped by SIGUSR1 and saved at step 2"
    run(tiny_config, "--resume", "never")
    folder = tiny_config.parent / "runs" / "tiny"
    assert messages(tiny_config)[1] == f"the run that was in {folder} is kept in {folder}.1"


def test_it_has_the_reason_of_a_failure_on_one_line(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    owner, name = PLACES["backward"]
    monkeypatch.setattr(owner, name, replacement(Fault("backward", "raise", call=3), getattr(owner, name)))
    with pytest.raises(RuntimeError, match="a fault of a test"):
        run(tiny_config)
    assert messages(tiny_config)[-1] == "failed at step 1: RuntimeError: a fault of a test"
    assert "failed at step" not in capfd.readouterr().out  # a traceback or one line of the user's error follows there
