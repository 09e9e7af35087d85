"""log.txt and state.json: what people look for a year later, and by what scripts know how a run ended."""

import json
import platform
import subprocess
from contextlib import suppress
from pathlib import Path
from signal import Signals
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from tests.conftest import save_image
from tests.reliability.faults import PLACES
from tests.runs import run
from training import run_record
from training.run_data import LoopState
from training.run_record import STATE_FILE, git_commit, recorded, write_state
from utils.checkpoint import CheckpointError
from utils.errors import Interrupted
from utils.log import logger


def messages(folder: Path) -> list[str]:
    """The lines of log.txt without their times."""
    return [line.split(" ", 2)[2] for line in (folder / "log.txt").read_text().splitlines()]


def state_of(folder: Path) -> dict[str, Any]:
    content = json.loads((folder / STATE_FILE).read_text())
    assert isinstance(content, dict)
    return content


@pytest.mark.parametrize(
    ("error", "expected", "last_line"),
    [
        (None, {"state": "finished", "signal": None, "reason": None}, "finished at step 3"),
        (
            Interrupted(Signals.SIGTERM, 3),
            {"state": "stopped", "signal": "SIGTERM", "reason": None},
            "stopped by SIGTERM and saved at step 3",
        ),
        (
            RuntimeError("first\nsecond"),
            {"state": "failed", "signal": None, "reason": "RuntimeError: first"},
            "failed at step 3: RuntimeError: first second",
        ),
        (
            RuntimeError("[gloo] Connection closed by peer"),
            {"state": "lost", "signal": None, "reason": "RuntimeError: [gloo] Connection closed by peer"},
            "failed at step 3: RuntimeError: [gloo] Connection closed by peer",
        ),
    ],
    ids=["finished", "stopped", "failed", "lost"],
)
def test_how_a_run_ended_and_at_which_step(
    tmp_path: Path, error: BaseException | None, expected: dict[str, Any], last_line: str
) -> None:
    logger.setLevel("INFO")
    folder = tmp_path / "run"
    with suppress(RuntimeError, Interrupted), recorded(folder) as record:
        logger.info("before there is a folder")
        folder.mkdir()
        record.loop = LoopState(batches_per_epoch=1, joint_batch_size=1, step=3)
        record.open()
        logger.info("later")
        if error:
            raise error
    logger.info("of another run")
    first, *others = messages(folder)
    assert first.startswith("pairgan ")
    assert f"Python {platform.python_version()}, torch {torch.__version__}" in first
    assert others == ["before there is a folder", "later", last_line]
    assert state_of(folder) == {"step": 3, **expected}


def test_why_a_finished_run_ended_early(tmp_path: Path) -> None:
    with recorded(tmp_path) as record:
        record.end_reason = "enough"
    assert state_of(tmp_path) == {"state": "finished", "step": 0, "signal": None, "reason": "enough"}


def test_a_start_that_fails_is_recorded_where_a_run_is(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-00000002.pt").touch()
    with pytest.raises(ValueError, match="a mistake"), recorded(tmp_path):
        raise ValueError("a mistake")
    assert messages(tmp_path)[1:] == ["not started: ValueError: a mistake"]
    assert (state_of(tmp_path)["state"], state_of(tmp_path)["step"]) == ("failed", 2)


def test_a_log_that_cannot_be_opened_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "log.txt").mkdir()
    before = list(logger.handlers)
    with recorded(tmp_path) as record:
        record.open()
    assert logger.handlers == before
    assert caplog.messages == [f"not written: [Errno 21] Is a directory: '{tmp_path / 'log.txt'}'"]


def test_a_failure_before_there_is_a_folder_makes_none_and_a_signal_makes_one(tmp_path: Path) -> None:
    for error, is_made in ((RuntimeError(), False), (Interrupted(Signals.SIGTERM), True)):
        with suppress(RuntimeError, Interrupted), recorded(tmp_path / "run"):
            raise error
        assert (tmp_path / "run" / STATE_FILE).is_file() is is_made


def test_a_resumed_run_logs_from_where_and_what_has_changed(tiny_config: Path, label_data_set: Path) -> None:
    settings = ["data.layout=paired_folders", f"data.root={label_data_set}", "data.n_classes=5"]
    folder = tiny_config.parent / "runs" / "tiny"
    run(tiny_config, *settings, "data.preprocess=none")
    n_before = len(messages(folder))
    save_image(label_data_set / "train_img" / "b.jpg", np.full((32, 64, 3), 9, np.uint8))
    run(tiny_config, *settings, "data.preprocess=none", "train.max_steps=5", "--accept-changed-data")
    _, changed, data, resumed, *_, last = messages(folder)[n_before:]
    assert changed == "changed since: train.max_steps 4 -> 5"
    assert data.startswith("the train split has changed: 1 names or files")
    assert resumed == f"resuming from {folder / 'checkpoint-00000004.pt'}"
    assert last == "finished at step 5"
    with pytest.raises(CheckpointError):
        run(tiny_config, *settings, "data.preprocess=none", "generator.base_channels=5")
    assert "was trained with generator.base_channels=4" in state_of(folder)["reason"]
    run(tiny_config, *settings, "data.preprocess=none", "train.max_steps=1", "--resume", "never")
    assert messages(folder)[1] == f"the run that was in {folder} is kept in {folder}.1"


def test_while_it_runs_the_state_is_running(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    owner, name = PLACES["validation"]
    original = getattr(owner, name)

    def watched(*arguments: Any) -> Any:
        seen.append(state_of(tiny_config.parent / "runs" / "tiny"))
        return original(*arguments)

    monkeypatch.setattr(owner, name, watched)
    run(tiny_config)
    assert seen == [{"state": "running", "step": 4, "signal": None, "reason": None}]


def test_a_full_disk_has_room_for_the_state_that_replaces_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_state(tmp_path, "failed", 1, reason="a long story")
    monkeypatch.setattr(run_record, "replacing", Mock(side_effect=OSError(28, "No space left on device")))
    write_state(tmp_path, "running", 2)
    assert state_of(tmp_path)["step"] == 2
    assert not caplog.text


def test_a_disk_that_fails_costs_the_file_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    write_state(tmp_path / "file", "running", 0)
    assert "state.json not written" in caplog.text


def test_the_commit_of_a_clone_and_whether_files_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    clone = tmp_path / "clone"
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    clone.mkdir()
    (clone / "file").write_text("a")
    for command in (["init", "-q"], ["add", "file"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    assert git_commit(clone) == head[:12]
    (clone / "file").write_text("b")
    assert git_commit(clone) == f"{head[:12]}-dirty"


def test_there_is_none_without_a_clone_or_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert git_commit(tmp_path) is None
    (tmp_path / ".git").mkdir()
    assert git_commit(tmp_path) is None  # no repository
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit(tmp_path) is None
