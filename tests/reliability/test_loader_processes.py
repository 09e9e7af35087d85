"""Row 18: what becomes of a run when one of its loader processes fails."""

import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import train
from data import worker_monitor
from data.batch import Batch, LoadingError
from data.facades.dataset import SyntheticFacades
from data.loader import TrainingDataset, TrainingSampler, training_batches
from tests.conftest import CommandLine, save_image, write_tiny_config
from tests.reliability.faults import send, strike_reading, struck, throw
from tests.reliability.images import WHOLE
from tests.runs import assert_equal, checkpoint, run, without_config
from utils import signals
from utils.checkpoint_folder import latest_valid

pytestmark = pytest.mark.row(18)

STEPS = 9
POLL_S = 0.1


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let waiting be looked at every tenth of a second."""
    monkeypatch.setattr("data.worker_monitor.POLL_S", POLL_S)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six pairs; a run on them, a step for each, saves after each."""
    folder, rng = tmp_path_factory.mktemp("pairs"), np.random.default_rng(0)
    for side, name in product(("train_A", "train_B"), "abcdef"):
        save_image(folder / side / f"{name}.png", rng.integers(0, 255, (32, 32, 3), dtype=np.uint8))
    return folder


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, pairs: Path) -> dict[str, Any]:
    """The last checkpoint of a run without loader processes."""
    config = write_tiny_config(tmp_path_factory.mktemp("uninterrupted"))
    run(config, *settings(pairs), "data.workers=0")
    return without_config(checkpoint(config, STEPS))


def settings(pairs: Path) -> list[str]:
    data = ["data.layout=paired_folders", f"data.root={pairs}", "data.instance_edges=false", "data.timeout_s=1"]
    return [*data, "data.workers=2", "checkpoint.every_steps=1", "checkpoint.keep=2", f"train.max_steps={STEPS}"]


FAULTS: dict[str, tuple[Callable[[], None], str]] = {
    "exception": (partial(throw, RuntimeError("a fault")), r"sample d of .*train_A: RuntimeError: a fault \(faults"),
    "memory error": (partial(throw, MemoryError()), r"too little memory for sample d of .*: lower data\.workers"),
    "segmentation fault": (send(signal.SIGSEGV), r"ended by SIGSEGV while it read sample d of .*tools\.check_data"),
    "killed": (send(signal.SIGKILL), r"ended by SIGKILL while it read sample d of .*memory is full"),
    "hanging": (lambda: time.sleep(100), r"processes for 1 s; waited for sample \w of .*data\.timeout_s"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_lost_process_ends_the_run_with_the_cause_and_the_run_can_go_on(
    tiny_config: Path,
    pairs: Path,
    uninterrupted: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    command_line: CommandLine,
    name: str,
) -> None:
    fault, message = FAULTS[name]
    with monkeypatch.context() as patch:
        strike_reading(patch, fault, ["d.png"], after=6)  # the second epoch
        (line,) = command_line.refusal(train.main, "--config", str(tiny_config), *settings(pairs))
    assert re.search(message, line), line
    assert not multiprocessing.active_children()
    newest = latest_valid(tiny_config.parent / "runs" / "tiny")
    assert newest is not None
    assert not newest.damaged
    if name == "killed":
        run(tiny_config, *settings(pairs))
        assert_equal(without_config(checkpoint(tiny_config, STEPS)), uninterrupted)


def test_memory_that_is_full_is_told(
    tiny_config: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine
) -> None:
    monkeypatch.setattr(Batch, "of", lambda *_: throw(RuntimeError("DefaultCPUAllocator: can't allocate memory")))
    (line,) = command_line.refusal(train.main, "--config", str(tiny_config), *settings(pairs))
    expected = r"error: too little memory for a batch of \w: lower data\.workers, train\.batch_size.*"
    assert re.fullmatch(expected, line)
    assert not multiprocessing.active_children()


def facade_batches(n_samples: int, should_stop: Callable[[], bool], timeout_s: float = 0) -> Generator[Batch]:
    data = TrainingDataset(SyntheticFacades(split="train", seed=0, n_samples=n_samples, height=32, width=32), WHOLE, 0)
    sampler = TrainingSampler(layout=data.layout, batch_size=1, seed=0, rank=0, world_size=1, first_batch=0)
    options: dict[str, Any] = {"n_workers": 2, "pin_memory": False, "timeout_s": timeout_s}
    return training_batches(data, sampler, **options, should_stop=should_stop)


def test_a_lost_process_interrupts_nothing_but_the_wait_for_a_batch() -> None:
    with closing(facade_batches(8, should_stop=lambda: False)) as stream:
        next(stream)
        for process in multiprocessing.active_children():
            process.kill()
            process.join()
        time.sleep(0.1)  # were the loader to interrupt, it would do so here
        with pytest.raises(LoadingError, match="ended by SIGKILL"):
            list(stream)


def test_signals_to_a_process_that_has_just_been_forked_are_the_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in a terminal reaches it before it has begun."""

    def kill() -> None:
        for number in signals.STOPPING:
            os.kill(os.getpid(), number)  # the id is the child's

    monkeypatch.setattr(worker_monitor, "_work", struck(worker_monitor._work, [1], kill))
    with closing(facade_batches(4, should_stop=lambda: False)) as stream:
        assert len([next(stream) for _ in range(4)]) == 4
