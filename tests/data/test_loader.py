"""The stream of training batches, its loader processes, and the samples that it skips."""

import logging
import multiprocessing
import os
import signal
import time
from functools import partial
from itertools import islice
from multiprocessing import forkserver
from pathlib import Path

import numpy as np
import pytest

from data.batch import Batch, DataError, LoadingError, Sample
from data.facades.dataset import SyntheticFacades
from data.loader import SampleKey, TrainingDataset, TrainingSampler
from data.paired_folders import SideBySide
from data.worker_monitor import WorkerMonitor
from tests import processes  # noqa: F401 - its server forks at once
from tests.batches import CROPS, batches
from tests.conftest import save_image
from tests.runs import assert_equal

FACADES = SyntheticFacades(split="train", seed=0, n_samples=5, height=32, width=32)
EMPTY = r"bad\d\d\.png: cannot be read as an image: it is empty; copy it again, or leave it out"


def assert_same(first: list[Batch], second: list[Batch]) -> None:
    assert_equal([vars(batch) for batch in first], [vars(batch) for batch in second])


def pairs(root: Path, n_good: int, n_bad: int) -> SideBySide:
    rng = np.random.default_rng(0)
    for number in range(n_good):
        save_image(root / f"good{number:02}.png", rng.integers(0, 255, (24, 48, 3), dtype=np.uint8))
    for number in range(n_bad):
        (root / f"bad{number:02}.png").write_bytes(b"")
    return SideBySide(folder=root, a_to_b=True)


def test_an_epoch_shows_every_sample_once_but_for_an_incomplete_batch() -> None:
    sampler = TrainingSampler(layout=FACADES, batch_size=2, seed=3, rank=0, world_size=1, first_batch=0)
    keys = [key for batch in islice(sampler, 4) for key in batch]
    first, second = keys[:4], keys[4:]
    assert [{key.epoch for key in epoch} for epoch in (first, second)] == [{0}, {1}]
    assert [len({key.index for key in epoch}) for epoch in (first, second)] == [4, 4]
    assert [key.index for key in first] != [key.index for key in second]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_processes_that_are_not_forked_load_the_same(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """macOS and Windows spawn processes, Python 3.14 forks them from a server."""
    expected = batches(FACADES, 3)
    monkeypatch.setattr(multiprocessing, "get_context", partial(multiprocessing.get_context, method))
    assert_same(batches(FACADES, 3, n_workers=1), expected)


def test_the_server_of_processes_starts_before_signals_are_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    def start() -> None:
        raise RuntimeError(f"blocked: {signal.pthread_sigmask(signal.SIG_BLOCK, ())}")

    monkeypatch.setattr(multiprocessing, "get_context", partial(multiprocessing.get_context, "forkserver"))
    monkeypatch.setattr(forkserver, "ensure_running", start)
    with pytest.raises(RuntimeError, match=r"blocked: set\(\)"):
        batches(FACADES, 1, n_workers=1)


def test_a_damaged_file_stops_the_stream_with_its_name_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=EMPTY) as error:
        batches(pairs(tmp_path, 1, 1), 2, size=1)
    assert "\n" not in str(error.value)


def test_a_bad_sample_is_replaced_and_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    taken = batches(pairs(tmp_path, 10, 2), 12, size=3, skips=True)  # three epochs
    assert all(name.startswith("good") for batch in taken for name in batch.names)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert sorted(warning.split(": ")[1] for warning in warnings) == [f"{tmp_path}/bad0{n}.png" for n in (0, 1)]
    assert "(1 of at most 10)" in warnings[0]


def test_a_replacement_depends_on_the_epoch_and_not_on_processes_or_where_a_run_resumes(tmp_path: Path) -> None:
    layout = pairs(tmp_path, 8, 4)
    all_of_it = batches(layout, 12, size=3, skips=True)
    assert_same(batches(layout, 12, size=3, skips=True, n_workers=2), all_of_it)
    assert_same(batches(layout, 7, size=3, skips=True, first=5), all_of_it[5:])
    dataset = TrainingDataset(layout, CROPS, 0, "skip")
    loaded = [dataset[SampleKey(epoch, 0)] for epoch in range(10)]
    assert len({sample.name for sample in loaded if isinstance(sample, Sample) and sample.replaces}) > 1


@pytest.mark.parametrize(
    ("n_good", "n_bad", "n_workers", "problem"), [(6, 11, 2, r"more than 10 of 17 .*bad\d\d\.png"), (0, 3, 0, EMPTY)]
)
def test_too_many_bad_samples_end_the_run(
    tmp_path: Path, n_good: int, n_bad: int, n_workers: int, problem: str
) -> None:
    with pytest.raises(DataError, match=problem):
        batches(pairs(tmp_path, n_good, n_bad), 100, n_workers=n_workers, size=1, skips=True)


def test_too_little_memory_is_no_fault_of_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_layout: SideBySide, _index: int) -> None:
        raise MemoryError

    monkeypatch.setattr(SideBySide, "read", read)
    with pytest.raises(LoadingError, match="too little memory for sample good"):
        batches(pairs(tmp_path, 5, 0), 1, skips=True)


def close_and_exit(_samples: object) -> None:
    os.closerange(3, 1000)
    time.sleep(0.1)
    os._exit(3)


def test_the_exit_code_of_a_process_whose_connection_has_ended_is_waited_for() -> None:
    dataset = TrainingDataset(FACADES, CROPS, 0)
    monitor = WorkerMonitor(dataset, [[SampleKey(0, 4)]], close_and_exit, n_processes=1, timeout_s=0)
    with monitor, pytest.raises(LoadingError, match="ended with exit code 3"):
        next(iter(monitor))
