"""Several processes under torchrun: signals to them, and the loss of one; rows 5 and 6."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.reliability.faults import Fault
from tests.runs import assert_equal, checkpoint, without_config
from utils.checkpoint import load_checkpoint
from utils.checkpoint_folder import list_checkpoints

ROOT = Path(__file__).parents[2]
NO_FAULT = Fault("save", "raise", call=10**9)
ENDLESS = [
    "train.max_steps=1000000",
    "log.every_steps=1",
    "checkpoint.every_steps=5",
    "data.synthetic.train_samples=12",
]


@contextmanager
def torchrun(
    config: Path, fault: Fault, *arguments: str, options: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Two processes of a training in a group of their own; none is left afterwards. What they say is in CONFIG.out."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--standalone", "--monitor-interval", "0.1"] if "--rdzv-backend" not in options else []
    environment = os.environ | {"OMP_NUM_THREADS": "1", "FAULT": json.dumps(asdict(fault)), "PYTHONPATH": str(ROOT)}
    with config.with_suffix(".out").open("ab") as output:
        process = subprocess.Popen(
            [*command, *options, str(ROOT / "tests/reliability/faulty_train.py"), "--config", str(config), *arguments],
            env=environment,
            cwd=ROOT,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            orphans = members(config)
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
            process.wait()
    assert not orphans, said(config)


def members(config: Path) -> list[int]:
    """The living processes of a run, torchrun's too, each of which has a session of its own."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words, state = (
                line.read_bytes().split(b"\0"),
                line.with_name("stat").read_text().rpartition(")")[2].split()[0],
            )
        except OSError:  # it has just ended
            continue
        if str(config).encode() in words and state != "Z":
            found.append(int(line.parent.name))
    return found


def said(config: Path) -> str:
    return config.with_suffix(".out").read_text(errors="replace")


def wait_for(config: Path, words: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 90
    while words not in said(config):
        assert process.poll() is None, said(config)
        assert time.monotonic() < deadline, said(config)
        time.sleep(0.05)


def wait_for_end(config: Path, process: subprocess.Popen[bytes], within_s: float) -> None:
    """Until none of the processes of a run lives."""
    deadline = time.monotonic() + within_s
    process.wait(within_s)
    while members(config):
        assert time.monotonic() < deadline, members(config)
        time.sleep(0.05)


def newest_step(config: Path) -> int:
    return int(load_checkpoint(list_checkpoints(config.parent / "runs" / "tiny")[-1])["step"])


@pytest.mark.row(5)
@pytest.mark.parametrize(
    ("fault", "to_torchrun", "number"),
    [
        (NO_FAULT, True, signal.SIGTERM),
        (NO_FAULT, True, signal.SIGINT),
        (Fault("forward", "SIGUSR1", call=7, rank=1), False, signal.SIGUSR1),
        (Fault("save", "SIGTERM", call=1), False, signal.SIGTERM),
    ],
    ids=["SIGTERM to torchrun", "SIGINT to torchrun", "SIGUSR1 to one", "SIGTERM during a save"],
)
def test_all_processes_stop_at_one_step_and_save(
    tiny_config: Path, fault: Fault, to_torchrun: bool, number: signal.Signals
) -> None:
    with torchrun(tiny_config, fault, *ENDLESS) as process:
        if to_torchrun:
            wait_for(tiny_config, "step      3/", process)
            process.send_signal(number)
        wait_for_end(tiny_config, process, within_s=60)
    told = [line for line in said(tiny_config).splitlines() if f"stopped by {number.name} and saved at step" in line]
    assert len(told) == 2, said(tiny_config)
    assert told[0].split(";")[0] == told[1].split(";")[0]
    assert f"saved at step {newest_step(tiny_config)};" in told[0]


@pytest.mark.row(5)
def test_a_process_that_waits_for_data_is_not_waited_for(tiny_config: Path) -> None:
    """Its loader process hangs; the other process has its batch, and both save."""
    fault = Fault("loading", "hang", call=9, rank=1)
    with torchrun(tiny_config, fault, *ENDLESS, "data.workers=1", "checkpoint.every_steps=1000000") as process:
        wait_for(tiny_config, "step      6/", process)
        process.send_signal(signal.SIGTERM)
        wait_for_end(tiny_config, process, within_s=30)
    told = [line for line in said(tiny_config).splitlines() if "stopped by SIGTERM and saved at step" in line]
    assert len(told) == 2, said(tiny_config)
    assert f"saved at step {newest_step(tiny_config)};" in told[0]
    assert newest_step(tiny_config) >= 6


@pytest.mark.row(5)
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGKILL])
def test_where_torchrun_itself_has_gone_its_processes_save_and_end(tiny_config: Path, number: signal.Signals) -> None:
    """It passes on no SIGUSR1, but ends of it."""
    with torchrun(tiny_config, NO_FAULT, *ENDLESS) as process:
        wait_for(tiny_config, "step      3/", process)
        process.send_signal(number)
        wait_for_end(tiny_config, process, within_s=30)
    told = [line for line in said(tiny_config).splitlines() if "stopped by SIGTERM and saved at step" in line]
    assert len(told) == 2, said(tiny_config)
    assert f"saved at step {newest_step(tiny_config)};" in told[0]


LOST = [
    Fault("forward", "SIGKILL", call=8, rank=1),
    Fault("agreement", "SIGKILL", call=15, rank=1),
    Fault("forward", "raise", call=8, rank=1),
    Fault("save", "SIGKILL", call=2, rank=0),
    *[
        pytest.param(fault, marks=pytest.mark.slow)
        for fault in (
            Fault("forward", "SIGSTOP", call=8, rank=1),  # torchrun kills what does not react after 30 s
            Fault("forward", "SIGKILL", call=8, rank=0),
            Fault("agreement", "SIGKILL", call=15, rank=0),
            Fault("validation", "SIGKILL", call=1, rank=0),
            Fault("validation", "raise", call=1, rank=0),
            Fault("save", "raise", call=2, rank=0),
        )
    ],
]


@pytest.mark.row(6)
@pytest.mark.parametrize("fault", LOST, ids=str)
def test_the_loss_of_one_ends_all(tiny_config: Path, fault: Fault) -> None:
    settings = [*ENDLESS, "log.images_every_steps=7", "run.peer_timeout_s=5"]
    with torchrun(tiny_config, fault, *settings) as process:
        # the start, with two imports of torch, takes seconds; from the fault on it is at most 5, or the timeout's
        wait_for(tiny_config, "step      6/", process)
        wait_for_end(tiny_config, process, within_s=40 if fault.how == "SIGSTOP" else 20)
        assert process.wait() != 0
    assert newest_step(tiny_config) == 5


@pytest.mark.row(6)
def test_a_restart_goes_on_to_the_same_end(tiny_config: Path) -> None:
    settings = ["train.max_steps=12", "checkpoint.every_steps=5", "data.synthetic.train_samples=12"]
    os.environ["FAULT_ONCE"] = str(tiny_config.with_suffix(".struck"))
    try:
        fault = Fault("forward", "SIGKILL", call=8, rank=1)
        with torchrun(tiny_config, fault, *settings, options=("--max-restarts", "1")) as process:
            wait_for_end(tiny_config, process, within_s=120)
            assert process.wait() == 0, said(tiny_config)
    finally:
        del os.environ["FAULT_ONCE"]
    assert "going on from" in said(tiny_config)
    with torchrun(tiny_config, NO_FAULT, *settings, "run.name=whole") as process:
        wait_for_end(tiny_config, process, within_s=120)
        assert process.wait() == 0, said(tiny_config)
    assert_equal(without_config(checkpoint(tiny_config, 12)), without_config(checkpoint(tiny_config, 12, "whole")))


@pytest.mark.row(6)
@pytest.mark.slow
def test_two_machines_train_together_and_one_goes_on_without_the_other(tiny_config: Path) -> None:
    """Two agents with a rendezvous on a loopback address; the second disappears like a machine that is switched off."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shutil.copy(tiny_config, tiny_config.with_name("second.yaml"))
    machine = ["--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-backend", "c10d"]
    machine += ["--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "test", "--local-addr", "127.0.0.1"]
    times = "keep_alive_interval=1,keep_alive_max_attempt=2,last_call_timeout=5"
    hosts, joins = (["--rdzv-conf", f"{times},is_host={is_host}"] for is_host in (1, 0))
    with (
        torchrun(tiny_config, NO_FAULT, *ENDLESS, options=[*machine, *hosts]) as first,
        torchrun(tiny_config.with_name("second.yaml"), NO_FAULT, *ENDLESS, options=[*machine, *joins]),
    ):
        wait_for_processes(tiny_config, 2)
        for pid in members(tiny_config.with_name("second.yaml")):
            os.kill(pid, signal.SIGKILL)
        wait_for_processes(tiny_config, 1)
        first.send_signal(signal.SIGTERM)
        wait_for_end(tiny_config, first, within_s=60)
    assert "going on from" in said(tiny_config)


def wait_for_processes(config: Path, number: int) -> None:
    """Until a checkpoint is there that so many processes have made."""
    deadline = time.monotonic() + 90
    while True:
        manifests = sorted((config.parent / "runs" / "tiny").glob("checkpoint-*.json"))
        with suppress(FileNotFoundError):  # removed as an old one just now
            if manifests and json.loads(manifests[-1].read_text())["processes"] == number:
                return
        assert time.monotonic() < deadline, said(config)
        time.sleep(0.05)
