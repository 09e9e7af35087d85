"""log.txt and state.json: what people look for a year later, and how scripts learn how a run ended."""

import json
import platform
import shutil
from contextlib import suppress
from pathlib import Path
from signal import Signals
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from configs.load import load_config
from tests.conftest import save_image
from tests.runs import run
from training import run_folder
from training.launch import train
from training.run_folder import read_state, recorded
from utils.errors import Interrupted, UserError
from utils.log import logger


def messages(folder: Path) -> list[str]:
    """The lines of log.txt without their times."""
    return [line.split(" ", 2)[2] for line in (folder / "log.txt").read_text().splitlines()]


def state(name: str, step: int, signal: str | None = None, reason: str | None = None) -> dict[str, Any]:
    return {"state": name, "step": step, "signal": signal, "reason": reason}


LOST = "[gloo] Connection closed by peer"


@pytest.mark.parametrize(
    ("error", "expected", "last_line"),
    [
        (None, state("finished", 3, reason="enough"), "finished at step 3"),
        (
            Interrupted(Signals.SIGTERM, 3),
            state("stopped", 3, "SIGTERM"),
            "stopped by SIGTERM and saved at step 3",
        ),
        (
            RuntimeError("first\nsecond"),
            state("failed", 3, reason="RuntimeError: first"),
            "failed at step 3: RuntimeError: first second",
        ),
        (
            RuntimeError(LOST),
            state("lost", 3, reason=f"RuntimeError: {LOST}"),
            f"failed at step 3: RuntimeError: {LOST}",
        ),
    ],
    ids=["finished", "stopped", "failed", "lost"],
)
def test_state_and_log_record_how_and_when_a_run_ended(
    tmp_path: Path, error: BaseException | None, expected: dict[str, Any], last_line: str
) -> None:
    logger.setLevel("INFO")
    folder = tmp_path / "run"
    with suppress(RuntimeError, Interrupted), recorded(folder) as session:
        logger.info("before there is a folder")
        folder.mkdir()
        session.begin(2)
        assert json.loads((folder / "state.json").read_text()) == state("running", 2)
        session.end_step()
        session.end_reason = "enough"
        logger.info("later")
        if error:
            raise error
    logger.info("of another run")
    first, *others = messages(folder)
    assert first.startswith("pairgan ")
    assert f"Python {platform.python_version()}, torch {torch.__version__}" in first
    assert others == ["before there is a folder", "later", last_line]
    assert json.loads((folder / "state.json").read_text()) == expected


def test_failed_start_is_recorded_if_the_folder_exists(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-00000002.pt").touch()
    with pytest.raises(ValueError, match="a mistake"), recorded(tmp_path):
        raise ValueError("a mistake")
    assert messages(tmp_path)[1:] == ["not started: ValueError: a mistake"]
    assert read_state(tmp_path) == state("failed", 2, reason="ValueError: a mistake")


@pytest.mark.parametrize("name", ["log.txt", "state.json"])
def test_a_file_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    (tmp_path / name).mkdir()
    before = list(logger.handlers)
    with recorded(tmp_path) as session:
        session.begin(0)
    assert logger.handlers == before
    assert "not written: [Errno 21] Is a directory" in caplog.text


def test_a_failure_before_there_is_a_folder_makes_none_and_a_signal_makes_one(tmp_path: Path) -> None:
    for error, is_made in ((RuntimeError(), False), (Interrupted(Signals.SIGTERM), True)):
        with suppress(RuntimeError, Interrupted), recorded(tmp_path / "run"):
            raise error
        assert (tmp_path / "run" / "state.json").is_file() is is_made


def test_a_resumed_run_logs_from_where_and_what_has_changed(tiny_config: Path, label_data_set: Path) -> None:
    settings = ["data.layout=paired_folders", f"data.root={label_data_set}", "data.n_classes=5", "data.preprocess=none"]
    folder = tiny_config.parent / "runs" / "tiny"
    run(tiny_config, *settings, "train.max_steps=1")
    n_before = len(messages(folder))
    save_image(label_data_set / "train_img" / "b.jpg", np.full((32, 64, 3), 9, np.uint8))
    run(tiny_config, *settings, "train.max_steps=2", "--accept-changed-data")
    _, changed, data, resumed, *_, last = messages(folder)[n_before:]
    assert changed == "changed since: train.max_steps 1 -> 2"
    assert data.startswith("the train split has changed: 1 names or files")
    assert resumed == f"resuming from {folder / 'checkpoint-00000001.pt'}"
    assert last == "finished at step 2"


def test_state_is_replaced_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with recorded(tmp_path) as session:
        session.begin(2)
        monkeypatch.setattr(run_folder, "replacing", Mock(side_effect=OSError(28, "No space left on device")))
    assert read_state(tmp_path) == state("finished", 2)
    assert not caplog.text


def test_a_folder_that_was_removed_ends_the_run_in_a_line(tiny_config: Path) -> None:
    folder = tiny_config.parent / "runs" / "tiny"
    config = load_config(tiny_config, ["train.max_steps=2", "log.every_steps=1"])
    with pytest.raises(UserError, match=r"tiny: the folder was removed while the run trained\. Start the run again\.$"):
        train(config, on_report=lambda step, scalars: shutil.rmtree(folder))
    assert not folder.exists()


def test_replaced_folder_ends_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    with recorded(folder) as session:
        session.begin(0)
        session.end_step()
        shutil.rmtree(folder)
        folder.mkdir()
        with pytest.raises(UserError, match="was removed"):
            session.end_step()
