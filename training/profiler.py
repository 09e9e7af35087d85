"""A trace of some training steps, for ui.perfetto.dev or TensorBoard."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from utils.log import logger

SKIPPED_STEPS = 10  # the first ones choose algorithms and fill caches


@contextmanager
def profiler(path: Path, n_steps: int) -> Iterator[Callable[[], None]]:
    """Record `n_steps` steps after the first SKIPPED_STEPS, and write them to `path`; 0 records nothing.

    Yields the function that is called at the end of each step. Steps that are not reached are not in the trace.
    """
    if not n_steps:
        yield lambda: None
        return
    recording = profile(
        activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])],
        schedule=schedule(wait=SKIPPED_STEPS - 1, warmup=1, active=n_steps, repeat=1),
        on_trace_ready=lambda finished: finished.export_chrome_trace(str(path)),
    )
    try:
        with recording:
            yield recording.step
    finally:
        logger.info("trace: %s" if path.is_file() else f"no trace: %s begins after {SKIPPED_STEPS} steps", path)
