from itertools import islice

from data.facades.dataset import SyntheticFacades
from data.sampler import SampleKey, TrainingSampler

FACADES = SyntheticFacades(split="train", seed=0, n_samples=11, height=32, width=32)


def keys(n_batches: int, *, rank: int = 0, world_size: int = 1, batch_size: int = 2, first: int = 0) -> list[SampleKey]:
    sampler = TrainingSampler(
        layout=FACADES, batch_size=batch_size, seed=3, rank=rank, world_size=world_size, first_batch=first
    )
    return [key for batch in islice(sampler, n_batches) for key in batch]


def test_an_epoch_shows_every_sample_once_but_for_an_incomplete_batch() -> None:
    first, second = keys(5), keys(10)[10:]
    assert {key.epoch for key in first} == {0}
    assert {key.epoch for key in second} == {1}
    for epoch in (first, second):
        assert len({key.index for key in epoch}) == 10
    assert [key.index for key in first] != [key.index for key in second]


def test_it_can_start_anywhere() -> None:
    assert keys(12)[14:] == keys(5, first=7)


def test_two_ranks_see_together_what_one_process_sees() -> None:
    ranks = [keys(8, rank=rank, world_size=2, batch_size=1) for rank in (0, 1)]
    interleaved = [key for pair in zip(*ranks, strict=True) for key in pair]
    assert interleaved == keys(8)
