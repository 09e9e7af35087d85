"""How fast steps go."""

import time


class Stopwatch:
    """Steps per second between laps."""

    def __init__(self, step: int) -> None:
        """Start at `step`."""
        self._step = step
        self._time_s = time.perf_counter()

    def lap(self, step: int) -> float:
        """Steps per second since the last lap, or the start, up to `step`."""
        now_s = time.perf_counter()
        steps_per_s = (step - self._step) / (now_s - self._time_s)
        self._step, self._time_s = step, now_s
        return steps_per_s
