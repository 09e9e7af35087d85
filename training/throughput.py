"""The speed of training, and the share of its time that it waits for data."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Lap:
    """The steps between two reports.

    waiting_share: share of the time spent in `waiting`, 0 to 1.
    """

    steps_per_s: float
    waiting_share: float


class Throughput:
    """Measures laps: their speed, and the share of waiting in them."""

    def __init__(self) -> None:
        """Start at step 0."""
        self.start(0)

    def start(self, step: int) -> None:
        """Begin a lap at `step`."""
        self._step = step
        self._time_s = time.perf_counter()
        self._waited_s = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time spent within as waiting."""
        begin_s = time.perf_counter()
        yield
        self._waited_s += time.perf_counter() - begin_s

    def lap(self, step: int) -> Lap:
        """Return the lap that ends at `step`, and begin another."""
        elapsed_s = time.perf_counter() - self._time_s
        lap = Lap((step - self._step) / elapsed_s, self._waited_s / elapsed_s)
        self.start(step)
        return lap
