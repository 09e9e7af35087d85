"""Signals that ask a run to stop, wherever it is: row 4."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import train
from tests.reliability.faults import PLACES, Fault, replacement
from tests.reliability.test_saving import failing
from tests.runs import assert_equal, checkpoint, run, uninterrupted, without_config
from training import checkpointing as saving
from training import launch
from utils.checkpoint_folder import list_checkpoints
from utils.cli import run_entry_point

pytestmark = pytest.mark.row(4)

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
# the call that is struck, so that the third step is the one that is under way
CALLS = {"forward": 3, "backward": 5, "step": 5, "validation": 3, "save": 3}
EVERY_STEP = ["checkpoint.every_steps=1", "log.images_every_steps=1"]


def stop_here(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = PLACES[fault.place]
    monkeypatch.setattr(owner, name, replacement(fault, getattr(owner, name)))


def run_as_user(config: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["train.py", "--config", str(config), *arguments])
    return run_entry_point(train.main)


def goes_on_exactly(config: Path) -> None:
    run(config, "train.max_steps=6")
    assert_equal(without_config(checkpoint(config, 6)), uninterrupted())


# each place, and each signal
COVERING = {
    ("forward", "SIGTERM"),
    ("backward", "SIGINT"),
    ("step", "SIGHUP"),
    ("validation", "SIGUSR1"),
    ("save", "SIGINT"),
}


@pytest.mark.parametrize(
    ("place", "name"),
    [
        pytest.param(place, name, marks=[pytest.mark.slow] * ((place, name) not in COVERING))
        for place in CALLS
        for name in SIGNALS
    ],
)
def test_the_step_is_finished_and_saved(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], place: str, name: str
) -> None:
    settings = EVERY_STEP if place in ("validation", "save") else []
    with monkeypatch.context() as context:
        stop_here(Fault(place, name, call=CALLS[place]), context)
        code = run_as_user(tiny_config, context, *settings, "train.max_steps=1000")
    assert code == 128 + signal.Signals[name]
    assert f"stopped by {name} and saved at step 3" in capfd.readouterr().err
    assert checkpoint(tiny_config, 3)["step"] == 3
    goes_on_exactly(tiny_config)


@pytest.mark.parametrize(
    "name", ["SIGINT", *(pytest.param(name, marks=pytest.mark.slow) for name in SIGNALS if name != "SIGINT")]
)
def test_a_run_that_waits_for_data_is_not_waited_for(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    timer = threading.Timer(2.0, os.kill, (os.getpid(), signal.Signals[name]))
    with monkeypatch.context() as context:
        stop_here(Fault("loading", "hang", call=4), context)  # in the loader process, forked after one call
        timer.start()
        code = run_as_user(tiny_config, context, "data.workers=1", "train.max_steps=1000")
        timer.join()
    assert code == 128 + signal.Signals[name]
    assert f"stopped by {name} and saved at step 2" in capfd.readouterr().err
    goes_on_exactly(tiny_config)


def test_a_second_ctrl_c_leaves_at_once(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        for call in (5, 6):  # both in the backward passes of the third step
            stop_here(Fault("backward", "SIGINT", call=call), context)
        code = run_as_user(tiny_config, context, "train.max_steps=1000", "checkpoint.every_steps=2")
    assert code == 130
    (saved,) = list_checkpoints(tiny_config.parent / "runs" / "tiny")
    assert saved.name == "checkpoint-00000002.pt"
    goes_on_exactly(tiny_config)


def test_before_the_first_step_a_run_stops_at_once(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def struck(original: Callable[..., Any]) -> Callable[..., Any]:
        return replacement(Fault("building", "SIGTERM"), original)

    with monkeypatch.context() as context:
        context.setattr(launch, "build_training", struck(launch.build_training))
        code = run_as_user(tiny_config, context)
    assert code == 128 + signal.SIGTERM
    expected = "stopped by SIGTERM; there was nothing to save; the same command starts it again\n"
    assert capfd.readouterr().err == expected
    goes_on_exactly(tiny_config)


@pytest.mark.parametrize(("source", "step"), [("runs/tiny", 4), ("runs/tiny/checkpoint-00000002.pt", 2)])
def test_a_run_that_starts_from_another_has_its_own_checkpoint_before_the_first_step(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], source: str, step: int
) -> None:
    run(tiny_config, "checkpoint.every_steps=2")
    name = "more" if step == 4 else "tiny"  # an earlier checkpoint of the run itself, which is archived
    with monkeypatch.context() as context:
        # while the folder is prepared, and while the first batch loads
        owner, function = (launch, "write_settings") if name == "tiny" else PLACES["waiting for data"]
        context.setattr(owner, function, replacement(Fault("starting", "SIGTERM"), getattr(owner, function)))
        resume = ["--resume", str(tiny_config.parent / source), f"run.name={name}"]
        assert run_as_user(tiny_config, context, *resume, "train.max_steps=6") == 128 + signal.SIGTERM
    assert f"stopped by SIGTERM and saved at step {step}" in capfd.readouterr().err
    source_run = "tiny" if name == "more" else "tiny.1"
    saved, begun_from = checkpoint(tiny_config, step, name), checkpoint(tiny_config, step, source_run)
    assert_equal(without_config(saved), without_config(begun_from))


def test_before_the_first_step_of_a_new_run_nothing_is_saved(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as context:
        stop_here(Fault("waiting for data", "SIGTERM"), context)
        assert run_as_user(tiny_config, context) == 128 + signal.SIGTERM
    assert "stopped by SIGTERM; there was nothing to save" in capfd.readouterr().err


def test_of_a_smoke_test_nothing_is_saved(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as context:
        stop_here(Fault("forward", "SIGINT"), context)
        assert run_as_user(tiny_config, context, "--smoke") == 128 + signal.SIGINT
    assert "stopped by SIGINT; there was nothing to save" in capfd.readouterr().err
    assert not (tiny_config.parent / "runs").exists()


def test_while_a_checkpoint_is_read_a_run_stops_and_keeps_it(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(tiny_config, "train.max_steps=4", "checkpoint.every_steps=2")
    with monkeypatch.context() as context:
        context.setattr(torch, "load", replacement(Fault("reading", "SIGTERM"), torch.load))
        assert run_as_user(tiny_config, context, "train.max_steps=6") == 128 + signal.SIGTERM
    assert "skipped" not in capfd.readouterr().out
    assert not list((tiny_config.parent / "runs" / "tiny").glob("*.damaged"))
    goes_on_exactly(tiny_config)


def test_a_disk_that_fails_once_does_not_stand_against_stopping(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "RETRY_S", 0.0)
    with monkeypatch.context() as context:
        stop_here(Fault("forward", "SIGTERM", call=3), context)
        context.setattr(saving, "save_checkpoint", failing(28, saving.save_checkpoint, range(1)))
        assert run_as_user(tiny_config, context, "train.max_steps=1000") == 128 + signal.SIGTERM
    assert checkpoint(tiny_config, 3)["step"] == 3
    goes_on_exactly(tiny_config)


def test_what_nohup_ignores_stays_ignored(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        stop_here(Fault("forward", "SIGHUP", call=2), monkeypatch)
        run(tiny_config)
    finally:
        signal.signal(signal.SIGHUP, previous)
    assert checkpoint(tiny_config, 4)["step"] == 4
