"""Batches of the stream that training reads."""

from contextlib import closing
from itertools import islice

from data.batch import Batch
from data.layout import Layout
from data.loader import TrainingDataset, TrainingSampler, training_batches
from data.preprocessing import Preprocessing

CROPS = Preprocessing(
    mode="crop", load_height=1, load_width=1, crop_height=16, crop_width=16, flip=True, size_multiple=8, min_size=16
)


def batches(
    layout: Layout,
    n_batches: int,
    *,
    preprocessing: Preprocessing = CROPS,
    size: int = 2,
    first: int = 0,
    rank: int = 0,
    ranks: int = 1,
    n_workers: int = 0,
    skips: bool = False,
) -> list[Batch]:
    """The batches from number `first` on; skips: replace samples that cannot be used."""
    sampler = TrainingSampler(layout=layout, batch_size=size, seed=0, rank=rank, world_size=ranks, first_batch=first)
    dataset = TrainingDataset(layout, preprocessing, 0, "skip" if skips else "error")
    with closing(training_batches(dataset, sampler, n_workers=n_workers, pin_memory=False)) as stream:
        return list(islice(stream, n_batches))
