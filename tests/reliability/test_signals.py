"""Signals that ask a run to stop, wherever it is: row 4."""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

import train
from tests.reliability.faults import Fault, strike_here, struck
from tests.runs import assert_equal, assert_same_state, checkpoint, run, uninterrupted, without_config
from training.batches import BatchReader
from utils.checkpoint_folder import list_checkpoints
from utils.cli import run_entry_point

pytestmark = pytest.mark.row(4)

# the call that is struck, so that the third step is the one that is under way
CALLS = {"forward": 3, "backward": 5, "step": 5, "validation": 3, "save": 3}
EVERY_STEP = ["checkpoint.every_steps=1", "log.images_every_steps=1"]
COVERING = [("forward", "SIGTERM"), ("backward", "SIGINT"), ("step", "SIGHUP"), ("validation", "SIGUSR1")]
COVERING += [("save", "SIGINT")]  # each place, and each signal


def run_with(config: Path, fault: Fault, *arguments: str) -> int:
    """Run train.py as the shell would; its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        strike_here(fault, patch)
        patch.setattr(sys, "argv", ["train.py", "--config", str(config), *arguments])
        return run_entry_point(train.main)


def goes_on_exactly(config: Path) -> None:
    run(config, "train.max_steps=6")
    assert_equal(without_config(checkpoint(config, 6)), uninterrupted())


@pytest.mark.parametrize(("place", "name"), COVERING)
def test_the_step_is_finished_and_saved(
    tiny_config: Path, capfd: pytest.CaptureFixture[str], place: str, name: str
) -> None:
    settings = EVERY_STEP if place in ("validation", "save") else []
    code = run_with(tiny_config, Fault(place, name, CALLS[place]), *settings, "train.max_steps=1000")
    assert code == 128 + signal.Signals[name]
    assert f"stopped by {name} and saved at step 3" in capfd.readouterr().err
    if place in ("backward", "validation"):
        goes_on_exactly(tiny_config)


def test_a_run_that_waits_for_data_is_not_waited_for(
    tiny_config: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data.worker_monitor.POLL_S", 0.1)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    # the third step of the main process waits for the loader process, which hangs; it was forked after one call
    monkeypatch.setattr(BatchReader, "read_step", struck(BatchReader.read_step, [3], timer.start))
    hangs = Fault("loading", "hang", call=4)
    code = run_with(tiny_config, hangs, "data.workers=1", "train.max_steps=1000")
    timer.join()
    assert code == 128 + signal.SIGINT
    assert "stopped by SIGINT and saved at step 2" in capfd.readouterr().err
    monkeypatch.undo()
    goes_on_exactly(tiny_config)


def test_a_second_ctrl_c_leaves_at_once(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        strike_here(Fault("backward", "SIGINT", call=6), context)  # both in the backward passes of the third step
        second = Fault("backward", "SIGINT", call=5)
        assert run_with(tiny_config, second, "train.max_steps=1000", "checkpoint.every_steps=2") == 130
    (saved,) = list_checkpoints(tiny_config.parent / "runs" / "tiny")
    assert saved.name == "checkpoint-00000002.pt"
    goes_on_exactly(tiny_config)


@pytest.mark.parametrize(("place", "arguments"), [("waiting for data", []), ("forward", ["--smoke"])])
def test_before_the_first_step_and_of_a_smoke_test_nothing_is_saved(
    tiny_config: Path, capfd: pytest.CaptureFixture[str], place: str, arguments: list[str]
) -> None:
    assert run_with(tiny_config, Fault(place, "SIGTERM"), *arguments) == 128 + signal.SIGTERM
    expected = "stopped by SIGTERM; there was nothing to save; repeat the command to start again\n"
    assert capfd.readouterr().err == expected
    assert not list(tiny_config.parent.rglob("*.pt"))
    assert (tiny_config.parent / "runs").exists() == (not arguments)


def test_a_run_that_starts_from_another_has_its_own_checkpoint_before_the_first_step(
    trained_config: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    resume = ["--resume", str(trained_config.parent / "runs" / "tiny"), "run.name=more"]
    fault = Fault("waiting for data", "SIGTERM")
    assert run_with(trained_config, fault, *resume, "train.max_steps=6") == 128 + signal.SIGTERM
    assert "stopped by SIGTERM and saved at step 4" in capfd.readouterr().err
    assert_same_state(trained_config, 4, "more")


def test_while_a_checkpoint_is_read_a_run_stops_and_keeps_it(
    trained_config: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_with(trained_config, Fault("reading", "SIGTERM"), "train.max_steps=6") == 128 + signal.SIGTERM
    assert "skipped" not in capfd.readouterr().out
    assert not list((trained_config.parent / "runs" / "tiny").glob("*.damaged"))
    goes_on_exactly(trained_config)


def test_what_nohup_ignores_stays_ignored(tiny_config: Path) -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run_with(tiny_config, Fault("forward", "SIGHUP", call=2)) == 0
    finally:
        signal.signal(signal.SIGHUP, previous)
    assert checkpoint(tiny_config, 4)["step"] == 4
