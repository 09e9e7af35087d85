"""Several processes under torchrun: signals to them, and the loss of one; rows 5 and 6."""

import json
import os
import re
import shutil
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from configs import load
from tests.processes import Torchrun, torchrun
from tests.reliability.faults import Fault, inject, inject_once, throw
from tests.runs import assert_same_state, wait_until, with_slow
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


@pytest.mark.row(5)
def test_where_torchrun_itself_has_gone_its_processes_save_and_end(tiny_config: Path) -> None:
    """It passes on no SIGUSR1, but ends of it."""
    with torchrun(tiny_config, *ENDLESS) as processes:
        processes.wait_for("step      3/")
        processes.send_signal(signal.SIGUSR1)
        processes.wait_for_all()
        assert_stopped_together(tiny_config, processes, signal.SIGTERM)


LOST = [Fault("forward", "SIGKILL", call=8, rank=1), Fault("save", "SIGKILL", call=2, rank=0)]
MORE_LOST = [
    Fault("agreement", "SIGKILL", call=15, rank=1),
    Fault("forward", "SIGSTOP", call=8, rank=1),  # torchrun kills what does not react after 30 s
    Fault("validation", "raise", call=1, rank=0),
    Fault("save", "raise", call=2, rank=0),
]


@pytest.mark.row(6)
@pytest.mark.parametrize("fault", with_slow(LOST, MORE_LOST), ids=str)
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
@pytest.mark.parametrize(
    ("arguments", "prepare", "message"),
    [
        (["run.sed=1"], None, "error: 'run.sed=1' on the command line: unknown key run.sed; did you mean run.seed?\n"),
        ([], fail_alone, "error: only here\n"),
    ],
    ids=["of all processes", "of the second process alone"],
)
def test_a_mistake_of_the_user_is_printed_once(
    arguments: list[str], prepare: Callable[[], object] | None, message: str, tiny_config: Path
) -> None:
    with torchrun(tiny_config, *arguments, prepare=prepare) as processes:
        assert processes.wait_for_all() == 1
        assert processes.said().count("error: ") == processes.said().count(message) == 1


@pytest.mark.row(6)
def test_a_restart_goes_on_to_the_same_end(tiny_config: Path) -> None:
    settings = ["train.max_steps=8", "checkpoint.every_steps=5", "data.synthetic_samples=[12,2,3]"]
    dies_once = partial(inject_once, Fault("forward", "SIGKILL", call=8, rank=1), tiny_config.with_suffix(".struck"))
    runs: dict[str, dict[str, Any]] = {"whole": {}, "tiny": {"prepare": dies_once, "max_restarts": 1}}
    for name, options in runs.items():
        with torchrun(tiny_config, *settings, f"run.name={name}", **options) as processes:
            assert processes.wait_for_all() == 0, processes.said()
            assert ("resuming from" in processes.said()) == (name == "tiny")
    assert_same_state(tiny_config, 8)


@pytest.mark.row(6)
@pytest.mark.slow
def test_two_machines_train_together_and_one_goes_on_without_the_other(tiny_config: Path) -> None:
    """Two agents with a rendezvous on a loopback address; the second disappears like a machine that is switched off."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    second_config = Path(shutil.copy(tiny_config, tiny_config.with_name("second.yaml")))
    machine: dict[str, Any] = {"max_nodes": 2, "nproc_per_node": 1, "max_restarts": 3, "run_id": "test"}
    machine |= {"rdzv_endpoint": f"127.0.0.1:{port}"}
    times = {"keep_alive_interval": 1, "keep_alive_max_attempt": 2, "last_call_timeout": 5}
    hosts, joins = (machine | {"rdzv_configs": times | {"is_host": is_host}} for is_host in (True, False))
    with torchrun(tiny_config, *ENDLESS, **hosts) as first, torchrun(second_config, *ENDLESS, **joins) as second:
        wait_for_processes(tiny_config, 2, first.said)
        for pid in second.members():
            os.kill(pid, signal.SIGKILL)
        wait_for_processes(tiny_config, 1, first.said)
        first.send_signal(signal.SIGTERM)
        first.wait_for_all()
        assert "resuming from" in first.said()


def wait_for_processes(config: Path, number: int, said: Callable[[], str]) -> None:
    """Until a checkpoint is there that so many processes have made."""

    def is_there() -> bool:
        manifests = sorted((config.parent / "runs" / "tiny").glob("checkpoint-*.json"))
        with suppress(FileNotFoundError):  # removed as an old one just now
            return bool(manifests) and json.loads(manifests[-1].read_text())["processes"] == number
        return False

    wait_until(is_there, said)
