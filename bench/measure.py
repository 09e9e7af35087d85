"""Measure the programs that a benchmark case compares (its "sides"), and write reports with median times.

The speed of a CPU varies. Therefore the sides take turns on a CPU, each in its own process. A GPU may not have memory
for all sides. Therefore the sides run one after the other on a GPU, in one process.
"""

import argparse
import gc
import json
import multiprocessing
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import torch
import torchvision

from bench.cases import Case
from training.cuda_graph import WARM_UP_STEPS, CaptureError
from utils.device import OptLevel, choose_device, choose_precision
from utils.errors import UserError

K = TypeVar("K")
T = TypeVar("T")
Work = Callable[[], object]
Rows = list[dict[str, Any]]
RESULTS = Path(__file__).parent / "results"
TURN_S = 0.5
_works: dict[str, Work] = {}  # functions that this process measures, by side


def in_turns(sides: Mapping[K, Callable[[], T]], repeats: int) -> dict[K, list[T]]:
    """Call all sides once per turn, so that changes of the machine's speed affect them equally. Return the results."""
    turns = [[call() for call in sides.values()] for _ in range(repeats)]
    return dict(zip(sides, map(list, zip(*turns, strict=True)), strict=True))


def seconds_of(work: Work, device: torch.device, n_calls: int = 1) -> float:
    """Return the mean duration of a call, in seconds."""
    synchronize(device)
    begin = time.perf_counter()
    for _ in range(n_calls):
        work()
    synchronize(device)
    return (time.perf_counter() - begin) / n_calls


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has finished."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def forget_peak(device: torch.device) -> None:
    """Free cached memory and reset the peak memory, for example after compilation and the choice of algorithms."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):  # if the kernel cannot reset the peak, use the peak since the start
        Path("/proc/self/clear_refs").write_text("5")  # see proc(5)


def peak_memory_bytes(device: torch.device) -> int:
    """Return the peak memory of this process since `forget_peak`.

    On a GPU, this is the memory that torch reserved. On a CPU, it is the resident set (only on Linux).
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def median_ratio(values: list[float], others: list[float]) -> float:
    """Return the median of `values` divided by `others`, turn by turn."""
    return median([value / other for value, other in zip(values, others, strict=True)])


@dataclass(frozen=True)
class Timed:
    """The measurement of a side. peak_gib: Peak memory, minus the peak memory before the side was prepared."""

    seconds: list[float]
    peak_gib: float


def prepare(side: str, make: Callable[[], Work], device: torch.device) -> int:
    """Make and warm up the work that `turn` measures. Return the peak memory before this preparation, in bytes."""
    before = peak_memory_bytes(device)
    work = _works[side] = make()
    for _ in range(1 if device.type == "cpu" else WARM_UP_STEPS + 2):
        work()
    forget_peak(device)
    if device.type == "cuda":
        work()  # allocates the freed memory again
    return before


def turn(side: str, device: torch.device) -> float:
    """Call the work as often as fits into TURN_S, and return the mean duration of a call in seconds."""
    work = _works[side]
    seconds = seconds_of(work, device)
    if (n_calls := round(TURN_S / seconds)) > 1:
        seconds = seconds_of(work, device, n_calls)
    return seconds


def time_on_gpu(side: str, make: Callable[[], Work], device: torch.device, repeats: int) -> Timed:
    """Return the measurement of a side in this process, and free its GPU memory."""
    forget_peak(device)
    try:
        before = prepare(side, make, device)
        seconds = [turn(side, device) for _ in range(repeats)]
        return Timed(seconds, (peak_memory_bytes(device) - before) / 2**30)
    finally:
        _works.clear()
        torch.compiler.reset()
        forget_peak(device)


def time_processes(sides: Mapping[str, Callable[[], Work]], device: torch.device, repeats: int) -> dict[str, Timed]:
    """Return the measurements of sides that take turns. Each function in `sides` makes the work in a new process.

    Raises:
        Exception: A side raised this exception. BrokenProcessPool: The process of a side crashed.
    """
    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        pools = {side: stack.enter_context(ProcessPoolExecutor(1, spawn)) for side in sides}

        def call(side: str, function: Callable[..., T], *arguments: object) -> T:
            return pools[side].submit(function, *arguments).result()

        for side, make in sides.items():
            pools[side].submit(callable, make)  # start all processes, so that they import in parallel
        before = {side: call(side, prepare, side, make, device) for side, make in sides.items()}
        seconds = in_turns({side: partial(call, side, turn, side, device) for side in sides}, repeats)
        peaks = {side: call(side, peak_memory_bytes, device) for side in sides}
    return {side: Timed(seconds[side], (peaks[side] - before[side]) / 2**30) for side in sides}


def compare(
    case: Case,
    levels: Mapping[str, OptLevel],
    make_work: Callable[[Case, str, torch.device], Work],
    device: torch.device,
    repeats: int,
) -> Rows:
    """Measure a case, and return a row for each side, with ratios to the first side. levels: Opt level by side.

    If a side fails on a GPU, print the error and omit the side. If the first side fails, the ratios are None.
    """
    makes, timed = {side: partial(make_work, case, side, device) for side in levels}, dict[str, Timed]()
    if device.type == "cpu":
        timed = time_processes(makes, device, repeats)
    else:
        for side, make in makes.items():
            try:
                timed[side] = time_on_gpu(side, make, device, repeats)
            except CaptureError:  # torch may be unusable afterwards
                raise
            except (RuntimeError, UserError) as error:  # too little memory, or no compiler
                print(f"{side}: {type(error).__name__}: {error}", flush=True)
    first = timed.get(next(iter(levels)))
    return [
        {
            "case": case.name,
            "side": side,
            "dtype": str(choose_precision(levels[side], "auto", device).compute_dtype).removeprefix("torch."),
            "s": median(one.seconds),
            "n": len(one.seconds),
            "spread": (max(one.seconds) - min(one.seconds)) / median(one.seconds),
            "images/s": case.batch_size / median(one.seconds),
            "times as fast": median_ratio(first.seconds, one.seconds) if first else None,
            "peak GiB": one.peak_gib,
            "memory ratio": one.peak_gib / first.peak_gib if first else None,
        }
        for side, one in timed.items()
    ]


def measure_cases(
    description: str | None,
    name: str,
    cases: Mapping[str, Sequence[Case]],
    rows_of: Callable[[Case, torch.device, int, Sequence[str]], Rows],
    sides: Sequence[str],
) -> None:
    """Measure according to the command line, and write a report after each case, because a later case may fail.

    cases: Cases for "cpu" and for "cuda", and "other" cases that run only with --case.
    rows_of: Returns the rows for a case, a device, a number of turns, and sides. An empty list selects default sides.
    """
    known = {case.name: case for of_device in cases.values() for case in of_device}
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--repeats", type=int, default=3)
    case_help = "default: all cases of the device"
    parser.add_argument("--case", nargs="*", choices=list(known), metavar="NAME", help=case_help)
    parser.add_argument("--side", nargs="*", choices=sides, default=[], metavar="NAME", help="; ".join(sides))
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help="default: bench/results")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    for case in [known[name] for name in arguments.case or []] or cases[device.type]:
        rows = rows_of(case, device, arguments.repeats, arguments.side)
        write_report(f"{name}{case.family}", device, rows, arguments.results)


def surroundings(device: torch.device) -> dict[str, Any]:
    """Return the machine, the versions and the commit of a measurement in this process."""
    return {
        **(_gpu(device) if device.type == "cuda" else {"device": _processor()}),
        "threads": torch.get_num_threads(),
        "torch_version": torch.__version__,
        "torchvision_version": torchvision.__version__,
        "python_version": platform.python_version(),
        "commit": _commit(),
    }


def _gpu(device: torch.device) -> dict[str, Any]:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    properties = torch.cuda.get_device_properties(device)
    return {
        "device": properties.name,
        "compute capability": f"{properties.major}.{properties.minor}",
        "GiB": properties.total_memory / 2**30,
        "driver": subprocess.run(query, capture_output=True, text=True, check=False).stdout.partition("\n")[0],
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.processor()


def _commit() -> str:
    """Return the commit, with "-dirty" if tracked files have changed, except results and Markdown files."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results", ":!*.md")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("-dirty" if changed else "")


def write_report(name: str, device: torch.device, rows: Sequence[dict[str, Any]], results: Path = RESULTS) -> Path:
    """Write RESULTS/NAME_DEVICE.json, and print the rows as a Markdown table with the columns of the first row.

    Rows that were measured before on the same device, with the same versions and commit, stay in the file.
    """
    path = results / f"{name}_{device.type}.json"
    if not rows:  # all sides failed
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    here = surroundings(device)
    earlier = json.loads(path.read_text()) if path.is_file() else {}
    if earlier.get("surroundings") == here:
        new = [_identity(row) for row in rows]
        rows = [*(row for row in earlier["rows"] if _identity(row) not in new), *rows]
    path.write_text(json.dumps({"surroundings": here, "rows": list(rows)}, indent=2) + "\n")
    print(f"\n{name}: {here['device']}, torch {here['torch_version']}, commit {here['commit']}\n")
    print(markdown_table(rows))
    return path


def _identity(row: dict[str, Any]) -> list[Any]:
    """Return the strings and integers of a row, which identify it."""
    return [value for value in row.values() if isinstance(value, str | int)]


def markdown_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table of rows that have the same keys."""
    columns = list(rows[0])
    lines = [columns, ["---"] * len(columns), *([_cell(row[column]) for column in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)
