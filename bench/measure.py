"""Timing in turns, of which the median counts, also of processes; reports with the machine's facts.

A side that is compared has a process of its own, for its settings and memory.
"""

import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torchvision

from bench.cases import Case
from utils.precision import OptLevel, choose_precision

Work = Callable[[], object]
RESULTS = Path(__file__).parent / "results"
TURN_S = 0.5


def time_alternating(
    sides: Mapping[str, Work], device: torch.device, *, repeats: int, warm_up: int = 1
) -> dict[str, list[float]]:
    """Return the seconds of each call in the order A B A B …, so that a drift of the speed affects all alike."""
    for _ in range(warm_up):
        for work in sides.values():
            work()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, work in sides.items():
            synchronize(device)
            begin = time.perf_counter()
            work()
            synchronize(device)
            times[name].append(time.perf_counter() - begin)
    return times


def synchronize(device: torch.device) -> None:
    """Wait for the work of a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def forget_cache(device: torch.device) -> None:
    """Return cached GPU memory to the system."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def forget_peak(device: torch.device) -> None:
    """Restart the measurement of the peak, so that the choice of algorithms and compilation do not count."""
    forget_cache(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):  # without support of the kernel: the peak since the program began
        Path("/proc/self/clear_refs").write_text("5")  # see proc(5)


def peak_memory_bytes(device: torch.device) -> int:
    """Return the peak memory of this process since `forget_peak`: of the GPU, or the resident set on a CPU (Linux).

    On a GPU it includes memory that torch reserves.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def median_ratio(values: list[float], others: list[float]) -> float:
    """Return the median of the ratios of the same turn."""
    return median([value / other for value, other in zip(values, others, strict=True)])


@dataclass(frozen=True)
class Timed:
    """The measurement of a process. seconds: of each call. answer: its last line, as its peak memory in GiB."""

    seconds: list[float]
    answer: float


def serve(make: Callable[[], Work], device: torch.device, *, warm_up: int) -> None:
    """Answer `time_processes`, which has started this process.

    After the first line of input the process makes its work and warms up. For each other line it makes a call, and
    prints its seconds. At the end it prints the peak memory of the calls, in GiB beyond that of the imported program.

    A turn is as many calls as take half a second, of which the mean counts. On a GPU a side frees its memory between
    turns, and allocates it again in a call that is not timed.
    """
    if not sys.stdin.readline():  # another side has failed
        return
    before = peak_memory_bytes(device)
    work = make()
    _repeat(work, warm_up)
    forget_peak(device)
    print("ready", flush=True)
    for _ in sys.stdin:
        seconds = _turn(work, device)
        forget_cache(device)
        print(seconds, flush=True)
    print((peak_memory_bytes(device) - before) / 2**30, flush=True)


def _turn(work: Work, device: torch.device) -> float:
    """Return the seconds of a call."""
    (seconds,) = time_alternating({"": work}, device, repeats=1, warm_up=int(device.type == "cuda"))[""]
    n_calls = round(TURN_S / seconds)
    if n_calls <= 1:
        return seconds
    return time_alternating({"": partial(_repeat, work, n_calls)}, device, repeats=1, warm_up=0)[""][0] / n_calls


def _repeat(work: Work, n_calls: int) -> None:
    for _ in range(n_calls):
        work()


def serving(module: str, *arguments: str) -> list[str]:
    """Return the command that calls `serve_side` of a module of the bench with these arguments."""
    return [sys.executable, "-c", f"from {module} import serve_side; serve_side(*{arguments!r})"]


def time_processes(commands: Mapping[str, list[str]], repeats: int) -> dict[str, Timed]:
    """Return the measurements of calls A B A B …; processes import in parallel, and warm up one after the other."""
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for name, command in commands.items()
        }
        for process in processes.values():
            _answer(process)
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, process in processes.items():
                seconds[name].append(float(_answer(process)))
        return {
            name: Timed(seconds[name], float(_answer(process, is_last=True))) for name, process in processes.items()
        }


def time_against_first(
    commands: Mapping[str, list[str]], device: torch.device, repeats: int
) -> Iterator[tuple[str, Timed, Timed]]:
    """Yield each side, its measurement, and that of the first side in the same turns.

    On a CPU all take turns. A GPU has no room for all: there each takes turns with the first, and one that does not fit
    is reported and left out.
    """
    first = next(iter(commands))
    groups = [list(commands)] if device.type == "cpu" else [[side] for side in commands]
    for sides in groups:
        try:
            timed = time_processes({name: commands[name] for name in dict.fromkeys((first, *sides))}, repeats)
        except RuntimeError as error:
            if device.type == "cpu":
                raise
            print(f"{sides[0]}: {error}", flush=True)
            continue
        yield from ((side, timed[side], timed[first]) for side in sides)


def _answer(process: "subprocess.Popen[bytes]", *, is_last: bool = False) -> bytes:
    """Return the line that a process prints after one more line of its input, or after the end of it."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):  # it has ended; the missing answer is an error
        if is_last:
            process.stdin.close()
        else:
            os.write(process.stdin.fileno(), b"go\n")
    line: bytes = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a measuring process ended with code {process.wait()}")
    return line


def compare(
    module: str, case: Case, levels: Mapping[str, OptLevel], device: torch.device, repeats: int, *further: str
) -> list[dict[str, Any]]:
    """Return a row for each side, compared with the first. levels: by side. module, further: see `serving`."""
    commands = {side: serving(module, case.name, side, str(device), *further) for side in levels}
    return [
        {
            "case": case.name,
            "side": name,
            "dtype": str(choose_precision(levels[name], "auto", device).compute_dtype).removeprefix("torch."),
            "s": median(timed.seconds),
            "images/s": case.batch_size / median(timed.seconds),
            "times as fast": median_ratio(first.seconds, timed.seconds),
            "peak GiB": timed.answer,
            "memory ratio": timed.answer / first.answer,
        }
        for name, timed, first in time_against_first(commands, device, repeats)
    ]


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
    """Return the commit, with "-dirty" if anything but results and pages differs from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results", ":!*.md")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("-dirty" if changed else "")


def write_report(name: str, device: torch.device, rows: Sequence[dict[str, Any]], results: Path = RESULTS) -> Path:
    """Write RESULTS/NAME_DEVICE.json, and print the rows as a Markdown table with the columns of the first row.

    Earlier rows of the same device, versions and commit stay in the file, before these.
    """
    path = results / f"{name}_{device.type}.json"
    if not rows:  # nothing fitted the device
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
    """Return the values that identify a row: strings and integers, not the figures."""
    return [value for value in row.values() if isinstance(value, str | int)]


def markdown_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows of equal keys as a Markdown table."""
    columns = list(rows[0])
    lines = [columns, ["---"] * len(columns), *([_cell(row[column]) for column in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(value: object) -> str:
    """Return a figure as text; of several runs, which are in a list, their mean and half of their range."""
    if isinstance(value, list) and len(value) > 1:
        return f"{statistics.mean(value):.3g} ± {(max(value) - min(value)) / 2:.1g}"
    if isinstance(value, list):
        return "".join(map(_cell, value))
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)
