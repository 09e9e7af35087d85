"""The folder of a run: its lock, what it is prepared for, and state.json, by which scripts know how the run ended."""

import json
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import train
from data.batch import DataError
from tests.reliability.faults import PLACES, Fault, replacement
from tests.runs import run
from training import launch, run_record
from training.loop_state import LoopState
from training.run_folder import RunLockedError, prepare_folder, run_lock
from training.run_record import STATE_FILE, recorded, write_state
from utils.checkpoint import CheckpointError
from utils.cli import run_entry_point
from utils.errors import ConfigError, Interrupted


def state_of(config: Path) -> dict[str, Any]:
    content = json.loads((config.parent / "runs" / "tiny" / STATE_FILE).read_text())
    assert isinstance(content, dict)
    return content


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, {"state": "finished", "signal": None, "reason": None}),
        (Interrupted(signal.SIGUSR1), {"state": "stopped", "signal": "SIGUSR1", "reason": None}),
        (RuntimeError("first\nsecond"), {"state": "failed", "signal": None, "reason": "RuntimeError: first"}),
    ],
    ids=["finished", "stopped", "failed"],
)
@pytest.mark.parametrize("is_built", [True, False])
def test_how_a_run_ended_and_at_which_step(
    tmp_path: Path, error: BaseException | None, expected: dict[str, Any], is_built: bool
) -> None:
    (tmp_path / "checkpoint-00000002.pt").touch()
    with suppress(RuntimeError, Interrupted), recorded(tmp_path) as record:
        if is_built:
            record.loop = LoopState(batches_per_epoch=1, joint_batch_size=1, step=3)
        if error:
            raise error
    assert json.loads((tmp_path / STATE_FILE).read_text()) == {"step": 3 if is_built else 2, **expected}


def test_a_failure_before_there_is_a_folder_makes_none_and_a_signal_makes_one(tmp_path: Path) -> None:
    for error, is_made in ((RuntimeError(), False), (Interrupted(signal.SIGTERM), True)):
        with suppress(RuntimeError, Interrupted), recorded(tmp_path / "run"):
            raise error
        assert (tmp_path / "run" / STATE_FILE).is_file() is is_made


def test_a_run_in_the_way_is_archived_and_other_files_are_not_moved(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for number in (1, 2):
        prepare_folder(folder, [], continues=True)
        write_state(folder, "finished", number)
        prepare_folder(folder, [], continues=False)
        assert json.loads((tmp_path / f"run.{number}" / STATE_FILE).read_text())["step"] == number
        assert not any(folder.iterdir())
    (folder / "notes.txt").touch()
    with pytest.raises(ConfigError, match=r"run\.root, run\.name: cannot make or write .*not of a run"):
        prepare_folder(folder, [], continues=False)


def test_what_a_killed_run_left_is_removed_and_damaged_checkpoints_are_renamed(tmp_path: Path) -> None:
    damaged, manifest = tmp_path / "checkpoint-00000002.pt", tmp_path / "checkpoint-00000001.pt.json"
    for path in (damaged, manifest):
        path.touch()
    prepare_folder(tmp_path, [damaged], continues=True)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-00000002.pt.damaged"]


def test_one_process_trains_in_a_folder_at_a_time(tmp_path: Path) -> None:
    with run_lock(tmp_path / "run"):
        message = r"run: another process is training this run: wait for it, or"
        with pytest.raises(RunLockedError, match=message), run_lock(tmp_path / "run"):
            pass
        with run_lock(tmp_path / "other"):
            pass
    with run_lock(tmp_path / "run"):
        pass


def test_while_it_runs_it_says_so(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    owner, name = PLACES["validation"]
    original = getattr(owner, name)

    def watched(*arguments: Any) -> Any:
        seen.append(state_of(tiny_config))
        return original(*arguments)

    monkeypatch.setattr(owner, name, watched)
    run(tiny_config)
    assert seen == [{"state": "running", "step": 4, "signal": None, "reason": None}]


def test_a_full_disk_has_room_for_the_state_that_replaces_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    write_state(tmp_path, "failed", 1, reason="a long story")
    monkeypatch.setattr(run_record, "replacing", full)
    write_state(tmp_path, "running", 2)
    assert json.loads((tmp_path / STATE_FILE).read_text())["step"] == 2
    assert not caplog.text


def test_a_disk_that_fails_costs_the_file_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    write_state(tmp_path / "file", "running", 0)
    assert "state.json not written" in caplog.text


@pytest.mark.parametrize("is_new", [True, False])
def test_a_signal_before_the_loop_is_a_stop_too(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    if not is_new:
        run(tiny_config, "train.max_steps=2")
    with monkeypatch.context() as context:
        struck = replacement(Fault("building", "SIGUSR1"), launch.build_training)
        context.setattr(launch, "build_training", struck)
        context.setattr(sys, "argv", ["train.py", "--config", str(tiny_config)])
        assert run_entry_point(train.main) == 138
    assert (state_of(tiny_config)["state"], state_of(tiny_config)["signal"]) == ("stopped", "SIGUSR1")
    run(tiny_config, "--resume", "never")
    assert state_of(tiny_config) == {"state": "finished", "step": 4, "signal": None, "reason": None}


def test_an_error_before_the_loop_is_a_failure(tiny_config: Path) -> None:
    with pytest.raises(DataError):
        run(tiny_config, "train.batch_size=9")
    assert not (tiny_config.parent / "runs" / "tiny").exists()
    run(tiny_config)
    with pytest.raises(CheckpointError):
        run(tiny_config, "generator.base_channels=5")
    assert (state_of(tiny_config)["state"], state_of(tiny_config)["step"]) == ("failed", 4)
    log = (tiny_config.parent / "runs" / "tiny" / "log.txt").read_text()
    assert "not started: CheckpointError" in log.splitlines()[-1]
    assert "was trained with generator.base_channels=4" in state_of(tiny_config)["reason"]
