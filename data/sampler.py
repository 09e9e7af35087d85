"""The order of the samples: a pure function of (seed, epoch, position, rank)."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch.utils.data import Sampler

from data.layout import Layout


@dataclass(frozen=True)
class SampleKey:
    """Identifies one augmented sample."""

    epoch: int
    index: int


class TrainingSampler(Sampler[list[SampleKey]]):
    """An endless stream of batches of keys, which can start at any batch without drawing the earlier ones.

    Each epoch, in the order that the layout draws, is cut into joint batches of batch_size * world_size samples; the
    samples that do not fill one are dropped, as in pix2pixHD. Each rank takes a contiguous share of a joint batch, so N
    ranks together get the samples of one process with N times the batch size.

    first_batch: number of joint batches since the start of the first epoch.
    """

    def __init__(
        self, *, layout: Layout, batch_size: int, seed: int, rank: int, world_size: int, first_batch: int
    ) -> None:
        joint_size = batch_size * world_size
        assert len(layout) >= joint_size, (len(layout), joint_size)
        self.batches_per_epoch = len(layout) // joint_size
        self._layout = layout
        self._batch_size = batch_size
        self._seed = seed
        self._rank = rank
        self._joint_size = joint_size
        self._first_batch = first_batch

    def __iter__(self) -> Iterator[list[SampleKey]]:
        epoch, position = divmod(self._first_batch, self.batches_per_epoch)
        while True:
            order = self._layout.epoch_order(self._seed, epoch, self.batches_per_epoch * self._joint_size)
            for joint_batch in range(position, self.batches_per_epoch):
                start = joint_batch * self._joint_size + self._rank * self._batch_size
                yield [SampleKey(epoch, int(index)) for index in order[start : start + self._batch_size]]
            epoch, position = epoch + 1, 0
