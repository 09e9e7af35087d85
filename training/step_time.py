"""An estimate of how long a run takes, by steps whose results are not kept."""

import statistics
import time
from collections.abc import Callable

import torch

from configs import build
from data.batch import Batch
from training.setup import Training

MOST_STEPS = 5
ENOUGH_S = 5  # after which a step is not repeated


def describe_time(training: Training, batch: Batch, loading_s: float) -> list[str]:
    """Return a line of the plan: how long the remaining steps take. The networks are changed by some steps.

    batch: on the device. loading_s: seconds that a sample takes to be read and placed.
    """
    config, n_steps = training.config, training.total_steps - training.run_state.loop.step
    if n_steps <= 0:
        return []
    computing_s = time_steps(training, batch)
    n_workers = build.count_workers(config.data, training.world.local_size)
    waiting_s = 0.0 if config.data.cache != "none" else loading_s * len(batch.names) * config.batches_per_step
    step_s = max(computing_s, waiting_s / n_workers) if n_workers else computing_s + waiting_s
    limit = ", most of it loading" if step_s > 2 * computing_s else ""
    return [f"time           about {duration(n_steps * step_s)} ({step_s:.2g} s a step{limit})"]


def time_steps(training: Training, batch: Batch) -> float:
    """Return the median of the seconds of a few steps with `batch`, after one that is not counted."""
    config, world, device = training.config, training.world, training.world.device
    step = training.method.step
    batches = [[batch] * config.train.accumulation_steps] * config.train.discriminator_steps
    step(batches)
    durations_s: list[float] = []
    while len(durations_s) < MOST_STEPS:
        durations_s.append(_time(lambda: step(batches), device))
        if world.all_reduce_max(int(sum(durations_s) > ENOUGH_S)):  # each process has to make as many
            break
    return statistics.median(durations_s)


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: 45 s, 12 min, 2 h 10 min, 3 days 4 h."""
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if round(seconds) < 60:
        return f"{max(1, round(seconds))} s"
    if minutes < 60:
        return f"{minutes} min"
    if hours < 48:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{hours // 24} days {hours % 24} h"


def _time(work: Callable[[], None], device: torch.device) -> float:
    _wait_for(device)
    begin_s = time.perf_counter()
    work()
    _wait_for(device)
    return time.perf_counter() - begin_s


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
