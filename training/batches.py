"""Reads the batches of each training step, and measures the speed."""

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import islice

from configs import build
from configs.splits import cache_folder, training_split
from data.batch import Batch, DeviceTransfer
from data.loader import TrainingSampler, training_batches
from data.worker_monitor import StoppedWaiting
from training.methods.method import StepBatches
from training.run import Training
from utils.signals import GracefulStop


@dataclass
class BatchReader:
    """Reads the batches of each step from a loader's endless stream, and measures the time spent waiting for data.

    step: First step of the measured interval.
    """

    stream: Iterator[Batch]
    transfer: DeviceTransfer
    step: int
    discriminator_steps: int
    accumulation_steps: int

    def __post_init__(self) -> None:
        self._begin_s, self._waited_s = time.perf_counter(), 0.0

    def read_step(self) -> StepBatches | None:
        """Return the batches of the next step, or None if a signal ended the wait."""
        groups = []
        for _ in range(self.discriminator_steps):
            begin_s = time.perf_counter()
            try:
                batches = list(islice(self.stream, self.accumulation_steps))
            except StoppedWaiting:
                return None
            self._waited_s += time.perf_counter() - begin_s
            groups.append([self.transfer(batch) for batch in batches])
        return groups

    def lap(self, step: int) -> tuple[float, float]:
        """Return the steps per second and the share of time spent waiting (0 to 1), both since the last call."""
        now_s = time.perf_counter()
        elapsed_s = now_s - self._begin_s
        lap = (step - self.step) / elapsed_s, self._waited_s / elapsed_s
        self.step, self._begin_s, self._waited_s = step, now_s, 0.0
        return lap


@contextmanager
def open_batches(training: Training, stop: GracefulStop) -> Iterator[BatchReader]:
    """Yield a reader that starts at the run's current position. It stops waiting for data when `stop` gets a signal.

    On exit, delete the cached samples of data.cache=memory.
    """
    config, world = training.config, training.world
    sampler = TrainingSampler(
        layout=training.splits.train,
        batch_size=config.train.batch_size,
        seed=config.run.seed,
        rank=world.rank,
        world_size=world.size,
        first_batch=training.loop.batches,
    )
    stream = training_batches(
        training.dataset(training_split(config, training.splits.train, training.folder)),
        sampler,
        n_workers=build.count_workers(config.data, world.local_size),
        pin_memory=world.device.type == "cuda",
        timeout_s=config.data.timeout_s,
        should_stop=lambda: stop.poll() != 0,
    )
    with ExitStack() as stack:
        folder = cache_folder(config, training.folder)
        if folder and config.data.cache == "memory":
            stack.callback(shutil.rmtree, folder, ignore_errors=True)  # other processes may still read
        stack.enter_context(closing(stream))
        yield BatchReader(
            stream=stream,
            transfer=DeviceTransfer(world.device),
            step=training.loop.step,
            discriminator_steps=config.train.discriminator_steps,
            accumulation_steps=config.train.accumulation_steps,
        )
