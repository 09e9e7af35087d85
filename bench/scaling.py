"""A training step in 1, 2, 4 … processes of one machine.

python -m bench.scaling [--repeats N]

Each process has a thread, or a GPU.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from bench.cases import SMALL, Case, command_line
from bench.measure import Rows, in_turns, median, median_ratio, peak_memory_bytes, seconds_of, write_report
from configs import build
from training.methods import METHODS
from utils.device import choose_device
from utils.distributed import joined_world

CASE = Case("small", 128, 128, settings=tuple(SMALL))
WARM_UP, N_STEPS = 1, 6


def figures_of_steps(case: Case, device_name: str) -> dict[str, float]:
    """Make steps of a case as one of several processes, and return their figures."""
    config = case.config()
    with joined_world(device_name, timeout_s=600.0) as world:
        build.prepare_device(config, world.device)
        method, batch = METHODS[config.method.name](config, world), case.batch(world.device)
        seconds = [seconds_of(partial(method.step, [[batch]]), world.device) for _ in range(WARM_UP + N_STEPS)]
        return {"s": median(seconds[WARM_UP:]), "GiB of a process": peak_memory_bytes(world.device) / 2**30}


def measure(case: Case, n_processes: int, device: torch.device) -> dict[str, float]:
    """Return the figures of the first of a number of processes."""
    here: dict[str, Any] = {"rdzv_backend": "c10d", "rdzv_endpoint": "127.0.0.1:0", "local_addr": "127.0.0.1"}
    config = LaunchConfig(1, 1, n_processes, run_id="bench", max_restarts=0, **here)
    figures: dict[int, dict[str, float]] = elastic_launch(config, figures_of_steps)(case, device.type)
    return figures[0]


def rows_of(case: Case, turns: Mapping[int, Sequence[Mapping[str, float]]]) -> Rows:
    """Return a row for each number of processes, including 1. turns: Figures of `measure`, by number of processes."""
    rows = []
    for n, figures in turns.items():
        seconds = [turn["s"] for turn in figures]
        row = {"case": case.name, "processes": n, "images/s": median([n * case.batch_size / s for s in seconds])}
        row["against one"] = n * median_ratio([turn["s"] for turn in turns[1]], seconds)
        rows.append(row | {name: median([turn[name] for turn in figures]) for name in figures[0]})
    return rows


def main() -> None:
    """Measure according to the command line, and write the report."""
    arguments = command_line(__doc__, [CASE.name]).parse_args()
    device = choose_device(arguments.device)
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    counts = [n for n in (1, 2, 4, 8) if n <= (torch.cuda.device_count() if device.type == "cuda" else 4)]
    turns = in_turns({n: partial(measure, CASE, n, device) for n in counts}, arguments.repeats)
    write_report("scaling", device, rows_of(CASE, turns))


if __name__ == "__main__":
    main()
