"""Batches, the stream of training batches, its loader processes, and the samples that it skips."""

import logging
import multiprocessing
import os
import signal
import time
from functools import partial
from itertools import islice
from multiprocessing import forkserver
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from data.batch import MAPS, Batch, DataError, DeviceTransfer, LoadingError, Sample, weights_to_float
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


def sample(name: str, source: Tensor | None = None, **maps: Tensor) -> Sample:
    partners: dict[str, Any] = dict.fromkeys(("instances", "target")) | maps
    return Sample(name, source=torch.zeros(3, 8, 8, dtype=torch.uint8) if source is None else source, **partners)


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (torch.zeros(3, 8, 8), r"train\.batch_size=1"),
        (torch.zeros(3, 8, 16, dtype=torch.uint8), r"\(a 8x8, b 16x8\).* data\.preprocess"),
    ],
)
def test_sources_that_differ_do_not_fit_one_batch(second: Tensor, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        Batch.of([sample("a"), sample("b", second)])


@pytest.mark.parametrize("kind", [kind for kind in MAPS if kind != "source"])
def test_no_map_of_a_batch_is_dropped_because_one_sample_lacks_it(kind: str) -> None:
    complete = sample("b", **{kind: torch.zeros(1, 8, 8, dtype=torch.uint8)})
    with pytest.raises(AssertionError, match=f"some samples have {kind}"):
        Batch.of([sample("a"), complete])
    batch = Batch.of([complete, complete])
    assert getattr(batch, kind).shape == (2, 1, 8, 8)
    assert len(batch.maps) == 2


def test_weights_of_several_types_become_floats() -> None:
    of_bytes, of_floats = torch.full((1, 8, 8), 51, dtype=torch.uint8), torch.full((1, 8, 8), 7.5)
    weights = Batch.of([sample("a", weights=of_bytes), sample("b", weights=of_floats)]).weights
    assert weights is not None
    torch.testing.assert_close(weights[:, 0, 0, 0], torch.tensor([0.2, 7.5]))
    assert weights_to_float(torch.tensor([0, 65535], dtype=torch.uint16)).tolist() == [0, 1]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_batch_reaches_a_busy_gpu_intact() -> None:
    device = torch.device("cuda")
    transfer = DeviceTransfer(device)
    busy = torch.randn(4096, 4096, device=device)
    for number in range(20):
        busy = (busy @ busy).clamp(-1, 1)
        maps = torch.full((1, 3, 512, 512), number, dtype=torch.uint8)
        batch = transfer(Batch((str(number),), source=maps, target=maps.clone()).pin_memory())
        assert (batch.source.float().mean(), batch.maps["target"].float().mean()) == (number, number)


def test_a_batch_arrives_in_another_process_with_its_types() -> None:
    generator = torch.Generator().manual_seed(0)
    types = (torch.uint8, torch.int32, torch.int16, torch.float32, torch.uint16)
    maps: dict[str, Any] = {
        name: torch.randint(250, (2, 1, 3, 5), dtype=torch.int32, generator=generator).expand(2, 3, 3, 5).to(dtype)
        for name, dtype in zip(MAPS, types, strict=False)  # without source_images and labels
    }
    batch = Batch(("a", "b"), **maps)
    received = ForkingPickler.loads(ForkingPickler.dumps(batch))
    assert_equal(vars(received), vars(batch))
    received.source.zero_()
    assert not received.source.is_shared()
