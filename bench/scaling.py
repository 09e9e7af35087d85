"""A training step in 1, 2, 4 … processes of one machine: its time in computing, in exchanging gradients, in waiting.

python -m bench.scaling [--repeats N] [--case NAME …]

Each process has a thread, or a GPU. A step as train.py makes it exchanges gradients while it computes
others. Steps that exchange them one after the other, once all processes have met, show the parts of the time. Other
steps exchange them in bfloat16.
"""

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, bf16_compress_hook
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from bench.cases import SMALL, Case, command_line
from bench.measure import in_turns, median, median_ratio, peak_memory_bytes, seconds_of, synchronize, write_report
from configs import build
from training.methods import METHODS
from utils.device import choose_device
from utils.distributed import joined_world

HALF_WIDTH = ("generator.base_channels=32", "discriminator.base_channels=32")  # a quarter of full size's parameters
CASES = [Case("small", 128, 128, settings=tuple(SMALL)), Case("half width", 128, 128, settings=HALF_WIDTH)]
STEPS = ("as trained", "in turn", "bfloat16")
WARM_UP, N_STEPS = 1, 6  # of each kind in a turn


class Exchange:
    """The exchange of gradients as the present step makes it.

    took: its bytes, its seconds of waiting for the other processes, and its seconds of exchanging.
    """

    def __init__(self, device: torch.device) -> None:
        self.how, self.took = "", [0.0, 0.0, 0.0]
        self._device = device

    def now(self) -> float:
        """Return the time when the device's work is done."""
        synchronize(self._device)
        return time.perf_counter()


def exchange_gradients(exchange: Exchange, bucket: dist.GradBucket) -> Future[Tensor]:
    """Average a bucket of gradients over the processes: a hook of DistributedDataParallel."""
    group: Any = dist.group.WORLD
    if exchange.how != "in turn":
        return (bf16_compress_hook if exchange.how == "bfloat16" else allreduce_hook)(group, bucket)
    begin = exchange.now()
    dist.barrier()
    met = exchange.now()
    future = allreduce_hook(group, bucket)
    future.wait()
    of_bucket = (bucket.buffer().nbytes, met - begin, exchange.now() - met)
    exchange.took = [sum(pair) for pair in zip(exchange.took, of_bucket, strict=True)]
    return future


def figures_of_steps(case: Case, device_name: str) -> dict[str, float]:
    """Make steps of a case as one of several processes, and return their figures."""
    config = case.config()
    with joined_world(device_name, timeout_s=600.0) as world:
        device = world.device
        build.prepare_device(config, device)
        method, batch, exchange = METHODS[config.method.name](config, world), case.batch(device), Exchange(device)
        for trained in method.networks.values():
            if isinstance(trained.network, DistributedDataParallel):
                trained.network.register_comm_hook(exchange, exchange_gradients)
        took: list[list[float]] = []

        def step(how: str) -> None:
            exchange.how, exchange.took = how, [0.0, 0.0, 0.0]
            method.step([[batch]])
            if how == "in turn":
                took.append(exchange.took)

        calls = {how: partial(seconds_of, partial(step, how), device) for how in STEPS}
        times = {how: seconds[WARM_UP:] for how, seconds in in_turns(calls, WARM_UP + N_STEPS).items()}
        means = world.mean(torch.tensor([median(part[WARM_UP:]) for part in zip(*took, strict=True)], device=device))
        n_bytes, waiting_s, exchanging_s = means.tolist()
        return {
            "s": median(times["as trained"]),
            "computing s": median(times["in turn"]) - waiting_s - exchanging_s,
            "exchanging s": exchanging_s,
            "waiting s": waiting_s,
            "MB of gradients": n_bytes / 1e6,
            "bfloat16: times as fast": median_ratio(times["as trained"], times["bfloat16"]),
            "GiB of a process": peak_memory_bytes(device) / 2**30,
        }


def measure(case: Case, n_processes: int, device: torch.device) -> dict[str, float]:
    """Return the figures of the first of a number of processes."""
    here: dict[str, Any] = {"rdzv_backend": "c10d", "rdzv_endpoint": "127.0.0.1:0", "local_addr": "127.0.0.1"}
    config = LaunchConfig(1, 1, n_processes, run_id="bench", max_restarts=0, **here)
    figures: dict[int, dict[str, float]] = elastic_launch(config, figures_of_steps)(case, device.type)
    return figures[0]


def rows_of(case: Case, turns: Mapping[int, Sequence[Mapping[str, float]]]) -> list[dict[str, Any]]:
    """Return a row for each number of processes, of which 1 is one. turns: the figures of `measure`."""
    rows = []
    for n, figures in turns.items():
        row = {
            "case": case.name,
            "processes": n,
            "images/s": median([n * case.batch_size / turn["s"] for turn in figures]),
        }
        row["against one"] = n * median_ratio([turn["s"] for turn in turns[1]], [turn["s"] for turn in figures])
        rows.append(row | {name: median([turn[name] for turn in figures]) for name in figures[0]})
    return rows


def main() -> None:
    """Measure according to the command line, and write the report."""
    arguments = command_line(__doc__, CASES).parse_args()
    device = choose_device(arguments.device)
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes
    torch.set_num_threads(1)  # for the report
    counts = [n for n in (1, 2, 4, 8) if n <= (torch.cuda.device_count() if device.type == "cuda" else 4)]
    for case in (case for case in CASES if case.name in (arguments.case or [case.name])):
        turns = in_turns({n: partial(measure, case, n, device) for n in counts}, arguments.repeats)
        write_report("scaling", device, rows_of(case, turns))  # a later case may fail


if __name__ == "__main__":
    main()
