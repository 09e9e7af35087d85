"""Load training batches in the right order, load validation samples, and compute the fingerprint of a data set.

A resumed run compares fingerprints to notice that the data set has changed.
"""

import hashlib
import logging
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import numpy as np
import torch
from torch import Tensor

from data.batch import BadSample, Batch, DataError, LoadingError, Sample
from data.layout import Layout, describe_sample
from data.preprocessing import Preprocessing, place
from data.worker_monitor import MonitoredDataset, WorkerMonitor
from utils.text import listed

logger = logging.getLogger("pairgan")  # the logger of the run

Loaded = Sample | DataError  # errors are returned, because a raised error would end the loader process


@dataclass(frozen=True)
class SampleKey:
    """The key of an augmented sample. Together with the seed, it determines the augmentation."""

    epoch: int
    index: int


@dataclass(frozen=True)
class TrainingSampler:
    """An endless stream of batches of sample keys. It can start at any batch without computing earlier batches.

    The samples of an epoch are divided into joint batches of batch_size * world_size samples. As in pix2pixHD, an
    incomplete joint batch is dropped. Each rank gets a contiguous part of each joint batch. N ranks together therefore
    get the same samples as one process with N times the batch size.

    first_batch: Number of joint batches between the start of the first epoch and the start of the stream.
    """

    layout: Layout
    batch_size: int
    seed: int
    rank: int
    world_size: int
    first_batch: int

    @property
    def batches_per_epoch(self) -> int:
        """Number of joint batches in an epoch. Callers must ensure that it is at least 1."""
        return len(self.layout) // (self.batch_size * self.world_size)

    def __iter__(self) -> Iterator[list[SampleKey]]:
        joint_size = self.batch_size * self.world_size
        epoch, position = divmod(self.first_batch, self.batches_per_epoch)
        while True:
            order = self.layout.epoch_order(self.seed, epoch, self.batches_per_epoch * joint_size)
            for joint_batch in range(position, self.batches_per_epoch):
                start = joint_batch * joint_size + self.rank * self.batch_size
                yield [SampleKey(epoch, int(index)) for index in order[start : start + self.batch_size]]
            epoch, position = epoch + 1, 0


def max_bad_samples(n_samples: int) -> int:
    """Return how many different samples can be skipped: 1 % of the samples, but at least 10."""
    return max(10, n_samples // 100)


class BadSamples:
    """The samples that a run has skipped so far."""

    def __init__(self, n_samples: int) -> None:
        self._n_samples = n_samples
        self._known: set[tuple[int, int]] = set()

    def add(self, samples: Iterable[BadSample]) -> None:
        """Add bad samples, and log a warning for each new sample.

        Raise DataError if there are more than `max_bad_samples`.
        """
        most = max_bad_samples(self._n_samples)
        for sample in samples:
            if (sample.side, sample.index) in self._known:
                continue
            self._known.add((sample.side, sample.index))
            if len(self._known) > most:
                raise DataError(
                    f"more than {most} of {self._n_samples} samples cannot be used, too many for "
                    f"data.on_bad_sample=skip; last sample: {sample.reason}. List all with python -m tools.check_data."
                )
            count = f"{len(self._known)} of at most {most}"
            logger.warning("skipped a bad sample, replaced by another sample (%s): %s", count, sample.reason)


class TrainingDataset(MonitoredDataset):
    """Augmented samples of a layout. All random choices depend only on seed, epoch, index and domain.

    on_bad_sample: "skip" replaces a bad sample by a random sample of the same domain. "error" returns the error.
    """

    def __init__(
        self, layout: Layout, preprocessing: Preprocessing, seed: int, on_bad_sample: Literal["error", "skip"] = "error"
    ) -> None:
        self.layout = layout
        self._preprocessing = preprocessing
        self._seed = seed
        self._skips = on_bad_sample == "skip"

    def __getitem__(self, key: SampleKey) -> Loaded:
        bad, samples = list[BadSample](), list[Sample]()
        for side, (_, first) in enumerate(self.layout.places(key.index)):
            n_bad = len(bad)
            for index in self._candidates(key, side, first):
                self.record(side, index)
                loaded = self._load(key, side, index)
                self.record()
                if isinstance(loaded, Sample):
                    samples.append(loaded)
                    break
                if isinstance(loaded, LoadingError):
                    return loaded
                bad.append(BadSample(side, index, str(loaded)))
            else:
                return DataError(*(sample.reason for sample in bad[n_bad:]))
        return replace(self.layout.joined(samples), replaces=tuple(bad))

    def _candidates(self, key: SampleKey, side: int, first: int) -> Iterator[int]:
        """Yield the index `first` and, if bad samples are skipped, the indices of samples that can replace it."""
        yield first
        if self._skips:
            n_samples = len(self.layout.sides[side])
            others = self._rng(key, 2 * side + 1).permutation(n_samples)
            yield from (int(index) for index in others[: max_bad_samples(n_samples) + 1] if index != first)

    def _load(self, key: SampleKey, side: int, index: int) -> Loaded:
        layout = self.layout.sides[side]
        try:
            sample = layout.read(index)
            named = replace(sample, name=describe_sample(layout, index))  # errors contain this name
            placement = self._preprocessing.draw(named, self._rng(key, 2 * side))
            return place(sample, placement, source_is_ids=layout.n_classes > 0)
        except Exception as error:  # noqa: BLE001  bugs are also returned, like all errors of a loader process
            return as_data_error(error, describe_sample(layout, index))

    def _rng(self, key: SampleKey, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, key.epoch, key.index, purpose])


def read_fixed(layout: Layout, preprocessing: Preprocessing, index: int) -> Sample:
    """Read sample `index` of a layout, and resize it for validation and testing, without random changes.

    Raise DataError if its files cannot be used.
    """
    samples = [(side, side.read(index_of_side)) for side, index_of_side in layout.places(index)]
    return layout.joined(
        [place(sample, preprocessing.fixed(sample), source_is_ids=side.n_classes > 0) for side, sample in samples]
    )


def read_fixed_samples(
    layout: Layout, preprocessing: Preprocessing, n_samples: int, on_bad_sample: Literal["error", "skip"]
) -> list[Sample]:
    """Read at most `n_samples` samples from the start of a layout, and resize them for validation.

    If a group has several samples, as a patient has several slices, read samples from all parts of the layout.

    on_bad_sample: "skip" logs a bad sample and reads the next sample instead. "error" raises its error.

    Raises:
        DataError: A sample cannot be used. With "skip": there are too many bad samples.
    """
    samples, bad_samples, reasons = list[Sample](), BadSamples(len(layout)), list[str]()
    order = np.arange(len(layout))
    if len(set(layout.groups)) < len(layout):  # samples of a group are alike, so use samples of many groups
        shown = np.linspace(0, len(layout) - 1, min(n_samples, len(layout)) + 2).astype(int)[1:-1]
        order = np.array([*dict.fromkeys([*shown, *order])])
    for index in map(int, order):
        if len(samples) == n_samples:
            break
        try:
            samples.append(read_fixed(layout, preprocessing, index))
        except DataError as error:
            if on_bad_sample == "error" or isinstance(error, LoadingError):
                raise
            reasons.append(str(error))
            bad_samples.add([BadSample(0, index, reasons[-1])])
    if reasons and not samples:
        raise DataError(*reasons)
    return samples


def training_batches(
    dataset: TrainingDataset,
    sampler: TrainingSampler,
    *,
    n_workers: int,
    pin_memory: bool,
    timeout_s: float = 0.0,
    should_stop: Callable[[], bool] = lambda: False,
) -> Generator[Batch]:
    """Yield batches without end. Close the generator to end the loader processes.

    n_workers: Number of loader processes; 0 loads in this process.
    timeout_s, should_stop: See WorkerMonitor.

    Raises:
        DataError: A sample cannot be used. If bad samples are skipped: there are too many bad samples.
        LoadingError: Loading failed for another reason.
        StoppedWaiting: `should_stop` returned True.
    """
    bad_samples = BadSamples(sum(map(len, dataset.layout.sides)))

    def from_processes() -> Generator[Batch | DataError]:
        with WorkerMonitor(dataset, sampler, _collate, n_workers, timeout_s, should_stop) as monitor:
            yield from monitor

    in_this_process = (_collate([dataset[key] for key in keys]) for keys in sampler)
    with closing(from_processes() if n_workers else in_this_process) as batches:
        for batch in batches:
            if isinstance(batch, DataError):
                raise batch
            bad_samples.add(batch.replaces)
            yield batch.pin_memory() if pin_memory else batch


def _collate(loaded: Sequence[Loaded]) -> Batch | DataError:
    """Stack samples to a batch. Return an error if `loaded` contains an error, or if samples do not fit together."""
    if problem := next((item for item in loaded if isinstance(item, DataError)), None):
        return problem
    samples = cast(Sequence[Sample], loaded)
    try:
        return Batch.of(samples)
    except Exception as error:  # noqa: BLE001  as in _load
        return as_data_error(error, f"a batch of {', '.join(sample.name for sample in samples)}")


def as_data_error(error: Exception, what: str) -> DataError:
    """Convert an exception to an error for the user. `what` names the sample or batch that was being loaded."""
    if isinstance(error, DataError):
        return error
    text = str(error)
    if isinstance(error, MemoryError) or "allocate memory" in text:
        return LoadingError(f"too little memory for {what}: lower data.workers, train.batch_size or the image size")
    line = traceback.extract_tb(error.__traceback__)[-1]
    return LoadingError(f"{what}: {type(error).__name__}: {text} ({Path(line.filename).name}, line {line.lineno})")


def fingerprint(layout: Layout) -> Tensor:
    """Return (M,) int64 digests: one for the name of each sample, and one for the name and size of each file.

    Moving a data set or packing it into tar files does not change the digests. Raise DataError if a file is missing.
    """
    return torch.tensor([digest for digest, _ in _digests(layout)], dtype=torch.int64)


def difference(saved: Tensor, layout: Layout) -> str | None:
    """Return how `layout` differs from a saved fingerprint, or None if it does not; see `fingerprint` for errors."""
    left = Counter(saved.tolist())
    new = []
    for digest, what in _digests(layout):
        if left[digest]:
            left[digest] -= 1
        else:
            new.append(what)
    n_gone = left.total()
    if not new and not n_gone:
        return None
    names = f" ({listed(new, 5)})" if new else ""
    return f"{len(new)} names or files were added or changed in size{names}, {n_gone} were removed or changed in size"


def _digests(layout: Layout) -> Iterator[tuple[int, str]]:
    for name in (name for side in layout.sides for name in side.names):
        yield _digest(f"name {name}"), f"sample {name}"
    for file in layout.files:
        try:
            n_bytes = file.size()
        except OSError as error:
            raise DataError(f"{file}: {error.strerror}") from error
        yield _digest(f"file {layout.folders.index(file.folder)} {file.name} {n_bytes}"), file.name


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), signed=True)
