"""state.json says how a run ended, so that a script knows whether to start it again."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import train
from data.batch import DataError
from tests.reliability.faults import PLACES, Fault, replacement
from tests.runs import run
from training import launch, run_folder
from training.run_folder import STATE_FILE, write_state
from utils.checkpoint import CheckpointError
from utils.cli import run_entry_point


def state_of(config: Path) -> dict[str, Any]:
    content = json.loads((config.parent / "runs" / "tiny" / STATE_FILE).read_text())
    assert isinstance(content, dict)
    return content


def test_a_finished_run(tiny_config: Path) -> None:
    run(tiny_config)
    assert state_of(tiny_config) == {"state": "finished", "step": 4, "signal": None, "reason": None}
    (tiny_config.parent / "runs" / "tiny" / STATE_FILE).unlink()
    run(tiny_config)  # there is nothing left to train
    assert state_of(tiny_config)["state"] == "finished"


def test_a_stopped_run_names_step_and_signal(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = PLACES["forward"]
    with monkeypatch.context() as context:
        context.setattr(owner, name, replacement(Fault("forward", "SIGUSR1", call=2), getattr(owner, name)))
        context.setattr(sys, "argv", ["train.py", "--config", str(tiny_config), "train.max_steps=1000"])
        assert run_entry_point(train.main) == 138
    assert state_of(tiny_config) == {"state": "stopped", "step": 2, "signal": "SIGUSR1", "reason": None}
    run(tiny_config)
    assert state_of(tiny_config)["state"] == "finished"


def test_a_run_that_fails_gives_the_reason(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = PLACES["backward"]
    with monkeypatch.context() as context:
        context.setattr(owner, name, replacement(Fault("backward", "raise", call=3), getattr(owner, name)))
        with pytest.raises(RuntimeError, match="a fault of a test"):
            run(tiny_config)
    assert state_of(tiny_config) == {
        "state": "failed",
        "step": 1,
        "signal": None,
        "reason": "RuntimeError: a fault of a test",
    }


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
    monkeypatch.setattr(run_folder, "replacing", full)
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
