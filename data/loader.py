"""Layout + preprocessing + sampler -> batches."""

import signal
from collections.abc import Generator, Sequence

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from data.batch import Batch, DataError, Sample
from data.layout import Layout
from data.preprocessing import Preprocessing, place
from data.sampler import SampleKey, TrainingSampler

# A loader process hands errors over as values: raised there, they would arrive wrapped in its traceback.
Loaded = Sample | Exception


class TrainingDataset(Dataset[Loaded]):
    """Samples of a layout, placed by a draw that depends on (seed, epoch, index) alone."""

    def __init__(self, layout: Layout, preprocessing: Preprocessing, seed: int) -> None:
        self._layout = layout
        self._preprocessing = preprocessing
        self._seed = seed

    def __getitem__(self, key: SampleKey) -> Loaded:
        rng = np.random.default_rng([self._seed, key.epoch, key.index])
        try:
            sample = self._layout.read(key.index)
            placement = self._preprocessing.draw(sample, rng)
            return place(sample, placement, source_is_ids=self._layout.n_classes > 0)
        except Exception as error:  # noqa: BLE001  a fault too: raised here it would leave the processes waiting
            return error


def read_fixed(layout: Layout, preprocessing: Preprocessing, index: int) -> Sample:
    """Sample `index` of a layout, placed as for validation and testing."""
    sample = layout.read(index)
    return place(sample, preprocessing.fixed(sample), source_is_ids=layout.n_classes > 0)


def training_batches(
    dataset: TrainingDataset, sampler: TrainingSampler, *, n_workers: int, pin_memory: bool
) -> Generator[Batch]:
    """The endless stream of batches.

    Raises:
        DataError: a sample cannot be used.
    """
    loader = DataLoader(
        dataset,
        batch_sampler=sampler,
        num_workers=n_workers,
        collate_fn=_collate,
        pin_memory=pin_memory,
        worker_init_fn=_leave_signals_to_the_parent,
        generator=torch.Generator(),  # its own: the loader must not draw from the stream of the networks' noise
    )
    for batch in loader:
        if isinstance(batch, Exception):
            raise batch
        yield batch


def _leave_signals_to_the_parent(_worker: int) -> None:
    """Ctrl-C, and often SIGTERM, reach every process of a group: the parent decides, and ends its workers itself."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _collate(samples: Sequence[Loaded]) -> Batch | Exception:
    for sample in samples:
        if isinstance(sample, Exception):
            return sample
    try:
        return Batch.of([sample for sample in samples if isinstance(sample, Sample)])
    except DataError as error:
        return error
