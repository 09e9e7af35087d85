"""Several processes under torchrun: signals to them, and the loss of one; rows 5 and 6."""

import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest

from configs import load
from tests.processes import Torchrun, torchrun
from tests.reliability.faults import Fault, inject, inject_once, throw
from utils.checkpoint import load_checkpoint
from utils.checkpoint_folder import list_checkpoints
from utils.errors import ConfigError

ENDLESS = ["train.max_steps=1000000", "log.every_steps=1", "checkpoint.every_steps=5"]
ENDLESS += ["data.synthetic_samples=[12,2,3]"]


def newest(config: Path) -> Path:
    return list_checkpoints(config.parent / "runs" / "tiny")[-1]


def newest_step(config: Path) -> int:
    return int(load_checkpoint(newest(config))["step"])


def assert_stopped_together(config: Path, run: Torchrun, number: signal.Signals, at_least: int = 1) -> None:
    """Check that both stopped at one step and put their state into the newest checkpoint.

    The first to end may have its peer ended by torchrun before that has printed its line.
    """
    stops = re.findall(rf"stopped by {number.name} and saved at step (\d+);", run.said())
    assert stops, run.said()
    assert {int(step) for step in stops} == {newest_step(config)}
    assert newest_step(config) >= at_least
    assert len(load_checkpoint(newest(config))["random_states"]) == 2


@pytest.mark.row(5)
@pytest.mark.parametrize(
    ("fault", "number"),
    [
        (None, signal.SIGTERM),
        (Fault("forward", "SIGUSR1", call=7, rank=1), signal.SIGUSR1),
        pytest.param(Fault("save", "SIGTERM", call=1), signal.SIGTERM, marks=pytest.mark.slow),
    ],
    ids=["SIGTERM to torchrun", "SIGUSR1 to one", "SIGTERM during a save"],
)
def test_all_processes_stop_at_one_step_and_save(
    tiny_config: Path, fault: Fault | None, number: signal.Signals
) -> None:
    with torchrun(tiny_config, *ENDLESS, prepare=partial(inject, fault) if fault else None) as processes:
        if fault is None:
            processes.wait_for("step      3/")
            processes.send_signal(number)
        processes.wait_for_all()
        assert_stopped_together(tiny_config, processes, number)


def hang_and_poll(fault: Fault) -> None:
    """Inject a hanging loader process. The others look every tenth of a second whether to stop."""
    pytest.MonkeyPatch().setattr("data.worker_monitor.POLL_S", 0.1)
    inject(fault)


@pytest.mark.row(5)
def test_a_process_that_waits_for_data_is_not_waited_for(tiny_config: Path) -> None:
    """Its loader process hangs; the other process has its batch, and both save."""
    hangs = partial(hang_and_poll, Fault("loading", "hang", call=9, rank=1))
    settings = [*ENDLESS, "data.workers=1", "checkpoint.every_steps=1000000"]
    with torchrun(tiny_config, *settings, prepare=hangs) as processes:
        processes.wait_for("step      6/")
        processes.send_signal(signal.SIGTERM)
        processes.wait_for_all()
        assert_stopped_together(tiny_config, processes, signal.SIGTERM, at_least=6)


LOST = [
    Fault("save", "SIGKILL", call=2, rank=0),
    Fault("agreement", "SIGKILL", call=15, rank=1),
    Fault("forward", "SIGSTOP", call=8, rank=1),  # torchrun kills what does not react after 30 s
    Fault("validation", "raise", call=1, rank=0),
]


@pytest.mark.row(6)
@pytest.mark.slow  # test_a_restart_resumes shows that all processes end
@pytest.mark.parametrize("fault", LOST, ids=str)
def test_the_loss_of_one_ends_all(tiny_config: Path, fault: Fault) -> None:
    settings = [*ENDLESS, "log.images_every_steps=7", "data.timeout_s=2"]
    with torchrun(tiny_config, *settings, prepare=partial(inject, fault)) as processes:
        assert processes.wait_for_all() != 0
    assert newest_step(tiny_config) == 5


def fail_alone() -> None:
    """Let the second process find a mistake that the first does not have."""
    if os.environ["RANK"] == "1":
        pytest.MonkeyPatch().setattr(load, "read_yaml", lambda _: throw(ConfigError("only here")))


@pytest.mark.row(15)
def test_a_mistake_of_the_user_is_printed_once(tiny_config: Path) -> None:
    with torchrun(tiny_config, prepare=fail_alone) as processes:
        assert processes.wait_for_all() == 1
        assert processes.said().count("error: ") == processes.said().count("error: only here\n") == 1


@pytest.mark.row(6)
def test_a_restart_resumes(tiny_config: Path) -> None:
    settings = ["train.max_steps=8", "checkpoint.every_steps=5", "data.synthetic_samples=[12,2,3]"]
    dies_once = partial(inject_once, Fault("forward", "SIGKILL", call=8, rank=1), tiny_config.with_suffix(".struck"))
    with torchrun(tiny_config, *settings, prepare=dies_once, max_restarts=1) as processes:
        assert processes.wait_for_all() == 0, processes.said()
        assert "checkpoint-00000005.pt" in processes.said().partition("resuming from")[2]
    assert newest_step(tiny_config) == 8
