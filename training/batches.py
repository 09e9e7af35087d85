"""The batches of each step, read and brought to the device."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from data.batch import Batch
from data.device_transfer import DeviceTransfer
from data.worker_monitor import StoppedWaiting
from training.throughput import Throughput

StepBatches = Sequence[Sequence[Batch]]
"""uint8 batches on the device: those of each update of the discriminator, the last of which the generator shares."""


@dataclass(frozen=True)
class BatchReader:
    """Takes the batches of a step from the endless stream of a loader, and measures how long it waits for them."""

    stream: Iterator[Batch]
    transfer: DeviceTransfer
    throughput: Throughput
    discriminator_steps: int
    accumulation_steps: int

    def read_step(self) -> StepBatches | None:
        """Return the batches of the next step; None where a signal has ended the wait."""
        try:
            return [self._read_group() for _ in range(self.discriminator_steps)]
        except StoppedWaiting:
            return None

    def _read_group(self) -> list[Batch]:
        with self.throughput.waiting():
            batches = list(islice(self.stream, self.accumulation_steps))
        return [self.transfer(batch) for batch in batches]


def sample_names(batches: StepBatches) -> str:
    """Return the names of all samples of a step."""
    return " ".join(name for group in batches for batch in group for name in batch.names)
