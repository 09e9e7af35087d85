"""data.on_bad_sample: samples that cannot be used."""

import logging
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import Batch, DataError, LoadingError
from data.loader import Replacement, TrainingDataset, max_bad_samples, training_batches
from data.preprocessing import Preprocessing
from data.sampler import SampleKey, TrainingSampler
from data.side_by_side import SideBySide
from tests.conftest import save_image

CROPS = Preprocessing(
    mode="crop", load_height=1, load_width=1, crop_height=16, crop_width=16, flip=True, size_multiple=8, min_size=16
)


def folder_of(root: Path, n_good: int, n_bad: int) -> Path:
    rng = np.random.default_rng(0)
    for number in range(n_good):
        save_image(root / f"good{number:02}.png", rng.integers(0, 255, (24, 48, 3), dtype=np.uint8))
    for number in range(n_bad):
        (root / f"bad{number:02}.png").write_bytes(b"")
    return root


def batches(folder: Path, n_batches: int, *, n_workers: int = 0, first_batch: int = 0, size: int = 3) -> list[Batch]:
    layout = SideBySide(folder=folder, a_to_b=True)
    sampler = TrainingSampler(
        n_samples=len(layout), batch_size=size, seed=0, rank=0, world_size=1, first_batch=first_batch
    )
    dataset = TrainingDataset(layout, CROPS, 0, "skip")
    return list(islice(training_batches(dataset, sampler, n_workers=n_workers, pin_memory=False), n_batches))


def assert_same(first: list[Batch], second: list[Batch]) -> None:
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        assert a.names == b.names
        assert torch.equal(a.source, b.source)


def test_a_bad_sample_is_replaced_and_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    taken = batches(folder_of(tmp_path, 10, 2), 12)  # three epochs
    assert all(name.startswith("good") for batch in taken for name in batch.names)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert sorted(warning.split(": ")[1] for warning in warnings) == [
        str(tmp_path / f"bad0{number}.png") for number in (0, 1)
    ]
    assert "(1 of at most 10)" in warnings[0]
    assert warnings[0].endswith("cannot be read as an image: it is empty; copy it again, or leave it out")


def test_the_replacement_does_not_depend_on_the_processes_or_on_where_a_run_resumes(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, 8, 4)
    all_of_it = batches(folder, 12)
    assert_same(all_of_it, batches(folder, 12, n_workers=2))
    assert_same(all_of_it[5:], batches(folder, 7, first_batch=5, n_workers=1))


def test_the_replacement_depends_on_the_epoch(tmp_path: Path) -> None:
    dataset = TrainingDataset(SideBySide(folder=folder_of(tmp_path, 8, 1), a_to_b=True), CROPS, 0, "skip")
    loaded = [dataset[SampleKey(epoch, 0)] for epoch in range(10)]
    assert len({sample.name for sample in loaded if isinstance(sample, Replacement)}) > 1


def test_samples_that_are_too_small_are_replaced_too(tmp_path: Path) -> None:
    save_image(folder_of(tmp_path, 5, 0) / "small.png", np.zeros((8, 16, 3), dtype=np.uint8))
    assert "small" not in [name for batch in batches(tmp_path, 6) for name in batch.names]


@pytest.mark.parametrize("n_workers", [0, 2])
def test_too_many_bad_samples_end_the_run(tmp_path: Path, n_workers: int) -> None:
    with pytest.raises(DataError, match=r"more than 10 of 41 samples cannot be used, .*bad\d\d\.png: cannot be read"):
        batches(folder_of(tmp_path, 30, 11), 100, n_workers=n_workers, size=1)


@pytest.mark.parametrize("n_bad", [3, 20])
def test_no_good_sample_at_all_ends_the_run(tmp_path: Path, n_bad: int) -> None:
    with pytest.raises(
        DataError, match=r"bad\d\d\.png: cannot be read as an image: it is empty; copy it again, or leave it out"
    ):
        batches(folder_of(tmp_path, 0, n_bad), 1, size=1)


@pytest.mark.parametrize(("n_samples", "most"), [(1, 10), (1000, 10), (1999, 19), (100_000, 1000)])
def test_one_in_a_hundred_may_be_skipped(n_samples: int, most: int) -> None:
    assert max_bad_samples(n_samples) == most


def test_too_little_memory_is_no_fault_of_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_layout: SideBySide, _index: int) -> None:
        raise MemoryError

    monkeypatch.setattr(SideBySide, "read", read)
    with pytest.raises(LoadingError, match="too little memory for sample good"):
        batches(folder_of(tmp_path, 5, 0), 1)
