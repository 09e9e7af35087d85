"""Growth of a training step's time and memory with pixels, batch size and processes.

python -m bench.scaling [--repeats N]

Arithmetic grows with pixels times batch size, and time should grow with it. Memory is a constant for weights, gradients
and Adam's moments, plus activations, which should grow by the same GiB for every further megapixel. Two processes that
share the cores of one should train on as many images per second.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.cases import OF_GROWTH, Case, command_line
from bench.measure import Timed, count_flop, forget_cache, median, median_ratio, serving, time_processes, write_report
from bench.train_step import make_side
from utils.device import choose_device

STEPS, ROUNDS = 20, 2
# the memory of the largest process that a command has started, in KiB (Linux)
PEAK_OF = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""


def train_demo(n_processes: int) -> tuple[float, float]:
    """Train the demo under torchrun, with the cores shared; return images per second and the peak GiB of a process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n_processes)]
        command += ["train.py", "--config", "configs/demo.yaml", f"run.root={folder}", f"train.max_steps={STEPS}"]
        command += [f"log.every_steps={STEPS // 2}", "log.images_every_steps=1000", "data.workers=1"]
        threads = max(1, (os.cpu_count() or 1) // n_processes)
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        peak_of = [sys.executable, "-c", PEAK_OF, *command]
        peak_kib = subprocess.run(peak_of, check=True, capture_output=True, text=True, env=environment).stdout
        lines = (Path(folder) / "demo" / "log.txt").read_text().splitlines()
        last = next(line for line in reversed(lines) if "images/s" in line)
        return float(last.split("images/s")[0].split()[-1]), int(peak_kib) / 2**20


def growth_rows(timed: dict[str, Timed], flop: dict[str, int], cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Return a row for each case, compared with the first."""
    first, *_ = cases
    megapixels = {case.name: case.batch_size * case.height * case.width / 1e6 for case in cases}
    rows: list[dict[str, Any]] = []
    for name, more_megapixels in ((name, n - megapixels[first.name]) for name, n in megapixels.items()):
        (seconds, peak_gib), one = (timed[name].seconds, timed[name].answer), timed[first.name]
        row = {"case": name, "s": median(seconds), "GFLOP": flop[name] / 1e9, "peak GiB": peak_gib}
        row["time grows by"] = median_ratio(seconds, one.seconds)
        row["arithmetic grows by"] = flop[name] / flop[first.name]
        row["memory grows by"] = peak_gib / one.answer
        grows_by = (peak_gib - one.answer) / more_megapixels if more_megapixels else None
        rows.append(row | {"GiB per further megapixel": grows_by})
    return rows


def process_rows(turns: dict[int, list[tuple[float, float]]]) -> list[dict[str, Any]]:
    """Return a row for each number of processes.

    turns: by number of processes, of which 1 is one: images per second of all together, and GiB of the largest process.
    """
    images_per_s = {n: [speed for speed, _ in measured] for n, measured in turns.items()}
    return [
        {
            "processes": n,
            "joint steps/s": median(speeds) / n,
            "images/s": median(speeds),
            "against one": median_ratio(speeds, images_per_s[1]),
            "GiB of a process": median([peak_gib for _, peak_gib in turns[n]]),
        }
        for n, speeds in images_per_s.items()
    ]


def main() -> None:
    """Measure according to the command line, and write the report."""
    arguments = command_line(__doc__, OF_GROWTH).parse_args()
    device = choose_device(arguments.device)
    chosen = [case for case in OF_GROWTH if case.name in (arguments.case or [case.name])]
    flop = {case.name: count_flop(make_side(case, "default", device)) for case in chosen}
    forget_cache(device)
    # in turns on a CPU; one by one on a GPU, which has no room for all and whose speed does not drift
    groups = [chosen] if device.type == "cpu" else [[case] for case in chosen]
    timed: dict[str, Timed] = {}
    for group in groups:
        commands = {case.name: serving("bench.train_step", case.name, "default", str(device)) for case in group}
        timed |= time_processes(commands, arguments.repeats)
    write_report("scaling", device, growth_rows(timed, flop, chosen))
    if device.type == "cpu":
        measured = [(train_demo(1), train_demo(2)) for _ in range(ROUNDS)]
        write_report("processes", device, process_rows(dict(enumerate(map(list, zip(*measured, strict=True)), 1))))


if __name__ == "__main__":
    main()
