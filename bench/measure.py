"""Timing in turns, of which the median counts; the speed of a plain convolution; reports with the machine's facts."""

import gc
import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import torchvision
from torch.utils.flop_counter import FlopCounterMode

Work = Callable[[], object]
RESULTS = Path(__file__).parent / "results"


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


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


def median(values: list[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def median_ratio(values: list[float], others: list[float]) -> float:
    """Return the median of the ratios of the same turn."""
    return median([value / other for value, other in zip(values, others, strict=True)])


def count_flop(work: Work) -> int:
    """Return the floating-point operations of one call's convolutions; a multiplication and an addition are two."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def convolution_rate(device: torch.device, dtype: torch.dtype, *, repeats: int = 9) -> float:
    """Return the FLOP/s of a plain 3x3 convolution of 512 channels on 64x64 pixels."""
    n_images, n_calls = (16, 20) if device.type == "cuda" else (1, 1)
    x = torch.randn(n_images, 512, 64, 64, device=device, dtype=dtype)
    weight = torch.randn(512, 512, 3, 3, device=device, dtype=dtype)
    if device.type == "cuda":
        x, weight = (tensor.to(memory_format=torch.channels_last) for tensor in (x, weight))

    def work() -> None:
        with torch.inference_mode():
            for _ in range(n_calls):
                F.conv2d(x, weight, padding=1)

    seconds = median(time_alternating({"": work}, device, repeats=repeats, warm_up=2)[""])
    return n_calls * 2 * weight.numel() * n_images * 64 * 64 / seconds


def surroundings(device: torch.device) -> dict[str, Any]:
    """Return the machine, the versions and the commit of a measurement in this process."""
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else _processor(),
        "threads": torch.get_num_threads(),
        "torch_version": torch.__version__,
        "torchvision_version": torchvision.__version__,
        "python_version": platform.python_version(),
        "commit": _commit(),
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
