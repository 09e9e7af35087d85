"""A trace of some training steps, for ui.perfetto.dev or TensorBoard."""

from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from utils.log import logger

SKIPPED_STEPS = 10  # the first ones choose algorithms and fill caches


class Profiler:
    """Records `n_steps` steps after the first SKIPPED_STEPS, and writes them to `path`; 0 records nothing."""

    def __init__(self, path: Path, n_steps: int) -> None:
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
        self._path = path
        self._profile: profile | None = None
        if n_steps:
            self._profile = profile(
                activities=activities,
                schedule=schedule(wait=SKIPPED_STEPS - 1, warmup=1, active=n_steps, repeat=1),
                on_trace_ready=lambda finished: finished.export_chrome_trace(str(path)),
            )
            self._profile.start()

    def step(self) -> None:
        """Record the end of a step."""
        if self._profile:
            self._profile.step()

    def close(self) -> None:
        """Stop recording; steps that were not reached are not in the trace."""
        if self._profile:
            self._profile.stop()
            is_there = self._path.is_file()
            logger.info("trace: %s" if is_there else f"no trace: %s begins after {SKIPPED_STEPS} steps", self._path)
