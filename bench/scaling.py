"""Time and memory of a training step against pixels and batch: the growth must be the arithmetic's.

python -m bench.scaling [--repeats N]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from bench.cases import DEMO, Case
from bench.measure import count_flop, median, time_processes
from bench.report import write_report
from bench.train_step import make_side, serve
from utils.distributed import choose_device

# the demo's networks, so that a CPU reaches 1024x512 in seconds
SIZES = [(128, 128), (256, 128), (256, 256), (512, 256), (512, 512), (1024, 512)]
CASES = [
    *(Case(f"{width}x{height}", height, width, settings=tuple(DEMO)) for width, height in SIZES),
    *(Case(f"256x256, batch {n}", 256, 256, batch_size=n, settings=tuple(DEMO)) for n in (2, 4, 8)),
]
STEPS = 60


def steps_per_s_of_processes(n_processes: int) -> float:
    """Joint steps per second of the demo's networks under torchrun, each process with its share of the cores."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n_processes)]
        command += ["train.py", "--config", "configs/demo.yaml", f"run.root={folder}", f"train.max_steps={STEPS}"]
        command += [f"log.every_steps={STEPS // 2}", "log.images_every_steps=1000", "data.workers=1"]
        threads = max(1, (os.cpu_count() or 1) // n_processes)
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        lines = (Path(folder) / "demo" / "log.txt").read_text().splitlines()
        last = next(line for line in reversed(lines) if "images/s" in line)
        return float(last.split("images/s")[0].split()[-1]) / n_processes


def main() -> None:
    """Parse the command line, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--serve", metavar="CASE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    if arguments.serve:
        serve(next(case for case in CASES if case.name == arguments.serve), "default", device)
        return
    command = [sys.executable, "-m", "bench.scaling", "--device", device.type, "--serve"]
    rows: list[dict[str, Any]] = []
    for case in CASES:
        flop = count_flop(make_side(case, "default", device))
        timed = time_processes({"default": [*command, case.name]}, arguments.repeats)["default"]
        row: dict[str, Any] = {
            "case": case.name,
            "s": median(timed.seconds),
            "GFLOP": flop / 1e9,
            "peak GiB": timed.answer,
        }
        first = rows[0] if rows else row
        row |= {"time grows by": row["s"] / first["s"], "arithmetic grows by": row["GFLOP"] / first["GFLOP"]}
        rows.append(row)
    write_report("scaling", device, rows)
    if device.type == "cpu":
        speeds = {n: steps_per_s_of_processes(n) for n in (1, 2)}
        processes = [
            {"processes": n, "joint steps/s": speed, "images/s": n * speed, "against one": n * speed / speeds[1]}
            for n, speed in speeds.items()
        ]
        write_report("processes", torch.device("cpu"), processes)


if __name__ == "__main__":
    main()
