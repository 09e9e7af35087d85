"""Layout + preprocessing + sampler -> batches."""

import signal
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from data.bad_samples import BadSample, BadSamples, most_bad_samples
from data.batch import Batch, DataError, LoadingError, Sample
from data.layout import Layout, describe_sample
from data.preprocessing import Preprocessing, place
from data.sampler import SampleKey, TrainingSampler
from data.worker_monitor import POLL_S, ProcessNotes, WorkerMonitor

_LEFT_TO_THE_PARENT = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")

# A loader process hands errors over as values: raised there, they would arrive wrapped in its traceback.
Loaded = Sample | DataError


@dataclass(frozen=True)
class Replacement(Sample):
    """A sample in the place of others that cannot be used."""

    replaces: tuple[BadSample, ...] = ()


class TrainingDataset(Dataset[Loaded]):
    """Samples of a layout, placed by a draw that depends on (seed, epoch, index) alone.

    on_bad_sample: "skip" gives another sample in the place of one that cannot be used, chosen by the same three.
    notes: where a loader process notes the sample that it reads.
    """

    def __init__(
        self,
        layout: Layout,
        preprocessing: Preprocessing,
        seed: int,
        on_bad_sample: Literal["error", "skip"] = "error",
    ) -> None:
        self.layout = layout
        self.notes = ProcessNotes(0)
        self._preprocessing = preprocessing
        self._seed = seed
        self._skips = on_bad_sample == "skip"

    def __getitem__(self, key: SampleKey) -> Loaded:
        replaced: list[BadSample] = []
        for index in self._candidates(key):
            self.notes.write(index)
            loaded = self._load(key, index)
            self.notes.write(None)
            if isinstance(loaded, Sample):
                return Replacement(**vars(loaded), replaces=tuple(replaced)) if replaced else loaded
            if isinstance(loaded, LoadingError) or not self._skips:
                return loaded
            replaced.append(BadSample(index, str(loaded)))
        return DataError(*(sample.reason for sample in replaced))

    def _candidates(self, key: SampleKey) -> Iterator[int]:
        yield key.index
        if self._skips:
            n_samples = len(self.layout)
            others = np.random.default_rng([self._seed, key.epoch, key.index, 1]).permutation(n_samples)
            yield from (int(index) for index in others[: most_bad_samples(n_samples) + 1] if index != key.index)

    def _load(self, key: SampleKey, index: int) -> Loaded:
        rng = np.random.default_rng([self._seed, key.epoch, key.index])
        try:
            sample = self.layout.read(index)
            placement = self._preprocessing.draw(sample, rng)
            return place(sample, placement, source_is_ids=self.layout.n_classes > 0)
        except Exception as error:  # noqa: BLE001  a fault too: raised here it would leave the processes waiting
            return as_data_error(error, describe_sample(self.layout, index))


def read_fixed(layout: Layout, preprocessing: Preprocessing, index: int) -> Sample:
    """Sample `index` of a layout, placed as for validation and testing."""
    sample = layout.read(index)
    return place(sample, preprocessing.fixed(sample), source_is_ids=layout.n_classes > 0)


def training_batches(
    dataset: TrainingDataset,
    sampler: TrainingSampler,
    *,
    n_workers: int,
    pin_memory: bool,
    prefetch: int = 2,
    timeout_s: float = 0.0,
    should_stop: Callable[[], bool] = lambda: False,
) -> Generator[Batch]:
    """The endless stream of batches.

    prefetch: batches that each loader process has ready.
    timeout_s: longest that loader processes may take for a batch, in seconds; 0: for ever.
    should_stop: asked every second while waiting for loader processes.

    Raises:
        DataError: a sample cannot be used, too many cannot, or loading failed.
        StoppedWaiting: `should_stop` said so.
    """
    dataset.notes = ProcessNotes(n_workers)
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_sampler=sampler,
        num_workers=n_workers,
        collate_fn=_collate,
        pin_memory=pin_memory,
        prefetch_factor=prefetch if n_workers else None,
        timeout=POLL_S if n_workers else 0,
        worker_init_fn=_leave_signals_to_the_parent,
        generator=torch.Generator(),  # its own: the loader must not draw from the stream of the networks' noise
    )
    bad_samples = BadSamples(len(dataset.layout))
    name_of = partial(describe_sample, dataset.layout)

    def from_processes() -> Generator[_Delivery]:
        with WorkerMonitor(
            loader, dataset.notes, name_of=name_of, timeout_s=timeout_s, should_stop=should_stop
        ) as processes:
            for keys in sampler:
                yield processes.next_batch(", ".join(name_of(key.index) for key in keys))

    def in_this_process() -> Generator[_Delivery]:
        yield from loader

    with closing(from_processes() if n_workers else in_this_process()) as deliveries:
        for delivery in deliveries:
            bad_samples.add(delivery.replaced)
            if isinstance(delivery.batch, DataError):
                raise delivery.batch
            yield delivery.batch


def _leave_signals_to_the_parent(_worker: int) -> None:
    """Ctrl-C, and often SIGTERM, reach every process of a group: the parent decides, and ends its workers itself."""
    for name in _LEFT_TO_THE_PARENT:
        if hasattr(signal, name):
            signal.signal(signal.Signals[name], signal.SIG_IGN)


@dataclass(frozen=True)
class _Delivery:
    """What a loader process hands over."""

    batch: Batch | DataError
    replaced: tuple[BadSample, ...] = ()

    def pin_memory(self) -> Self:
        """The same in page-locked memory; torch's DataLoader calls this."""
        return self if isinstance(self.batch, DataError) else type(self)(self.batch.pin_memory(), self.replaced)


def _collate(loaded: Sequence[Loaded]) -> _Delivery:
    samples: list[Sample] = []
    for sample in loaded:
        if isinstance(sample, DataError):
            return _Delivery(sample)
        samples.append(sample)
    try:
        batch = Batch.of(samples)
    except Exception as error:  # noqa: BLE001  as above
        return _Delivery(as_data_error(error, f"a batch of {', '.join(sample.name for sample in samples)}"))
    replacements = [sample for sample in samples if isinstance(sample, Replacement)]
    return _Delivery(batch, tuple(bad for sample in replacements for bad in sample.replaces))


def as_data_error(error: Exception, what: str) -> DataError:
    """What went wrong with `what`, as the user is told."""
    if isinstance(error, DataError):
        return error
    text = str(error)
    if "shared memory" in text or "/torch_" in text:
        return LoadingError(f"too little shared memory (/dev/shm) for {what}: enlarge it, or set data.workers=0")
    if isinstance(error, MemoryError) or "allocate memory" in text:
        return LoadingError(f"too little memory for {what}: lower data.workers, train.batch_size or the size")
    line = traceback.extract_tb(error.__traceback__)[-1]
    return LoadingError(f"{what}: {type(error).__name__}: {text} ({Path(line.filename).name}, line {line.lineno})")
