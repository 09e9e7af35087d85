import multiprocessing
import os
import subprocess
import sys
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import Batch, DataError, Sample
from data.facades.dataset import SyntheticFacades
from data.layout import Layout
from data.loader import TrainingDataset, training_batches
from data.preprocessing import Preprocessing
from data.sampler import TrainingSampler
from data.side_by_side import SideBySide
from tests import processes  # noqa: F401 - its server forks at once
from tests.conftest import save_image

CROPS = Preprocessing(
    mode="crop", load_height=1, load_width=1, crop_height=16, crop_width=16, flip=True, size_multiple=8, min_size=16
)


def batches(layout: Layout, n_batches: int, *, n_workers: int, first_batch: int = 0, size: int = 2) -> list[Batch]:
    sampler = TrainingSampler(
        n_samples=len(layout), batch_size=size, seed=0, rank=0, world_size=1, first_batch=first_batch
    )
    stream = training_batches(TrainingDataset(layout, CROPS, seed=0), sampler, n_workers=n_workers, pin_memory=False)
    return list(islice(stream, n_batches))


def facades() -> SyntheticFacades:
    return SyntheticFacades(split="train", seed=0, n_samples=5, height=32, width=32)


def assert_equal(first: list[Batch], second: list[Batch]) -> None:
    for a, b in zip(first, second, strict=True):
        assert a.names == b.names
        assert torch.equal(a.source, b.source)
        assert a.target is not None
        assert b.target is not None
        assert torch.equal(a.target, b.target)


def test_the_number_of_workers_does_not_change_the_samples() -> None:
    assert_equal(batches(facades(), 6, n_workers=0), batches(facades(), 6, n_workers=2))


def test_a_loader_process_stacks_into_memory_that_the_training_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Batch.of

    def checked(samples: list[Sample]) -> Batch:
        batch = stack(samples)
        assert [tensor.is_shared() for tensor in batch.maps] == [True, True, True]
        return batch

    monkeypatch.setattr(Batch, "of", checked)
    assert len(batches(facades(), 1, n_workers=1)) == 1  # a failed assertion in the process ends the stream


@pytest.mark.parametrize("method", ["forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_processes_that_are_not_forked_load_the_same(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """macOS and Windows spawn processes, Python 3.14 forks them from a server."""
    expected = batches(facades(), 3, n_workers=0)
    monkeypatch.setattr(multiprocessing, "get_context", partial(multiprocessing.get_context, method))
    assert_equal(batches(facades(), 3, n_workers=1), expected)


def test_the_stream_can_start_at_any_batch() -> None:
    assert_equal(batches(facades(), 6, n_workers=0)[3:], batches(facades(), 3, n_workers=0, first_batch=3))


def test_a_sample_is_augmented_differently_in_each_epoch() -> None:
    first, second = batches(facades(), 10, n_workers=0, size=5)[:2]
    order = [second.names.index(name) for name in first.names]
    assert first.target is not None
    assert second.target is not None
    assert not torch.equal(first.target, second.target[order])


@pytest.mark.parametrize("n_workers", [0, 1])
def test_a_damaged_file_stops_the_stream_with_its_name_in_one_line(tmp_path: Path, n_workers: int) -> None:
    save_image(tmp_path / "good.png", np.zeros((32, 64, 3), dtype=np.uint8))
    (tmp_path / "bad.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"bad\.png: cannot be read") as error:
        batches(SideBySide(folder=tmp_path, a_to_b=True), 2, n_workers=n_workers, size=1)
    assert "\n" not in str(error.value)


def test_a_fault_in_a_loader_process_ends_the_run_and_its_processes(tmp_path: Path) -> None:
    script = tmp_path / "fault.py"
    script.write_text(
        "from contextlib import closing\n"
        "from data.loader import TrainingDataset, training_batches\n"
        "from data.sampler import TrainingSampler\n"
        "class Faulty:\n"
        "    n_classes, names, folders = 0, ['x', 'x'], []\n"
        "    def __len__(self): return 2\n"
        "    def read(self, index): raise RuntimeError('a fault')\n"
        "sampler = TrainingSampler(n_samples=2, batch_size=1, seed=0, rank=0, world_size=1, first_batch=0)\n"
        "stream = training_batches(TrainingDataset(Faulty(), None, 0), sampler, n_workers=2, pin_memory=False)\n"
        "with closing(stream): next(stream)\n"
    )
    result = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, env=os.environ | {"PYTHONPATH": "."}
    )
    assert result.returncode == 1
    assert "data.batch.LoadingError: sample x: RuntimeError: a fault (fault.py, line 7)" in result.stderr
