"""Sides in processes of their own, for their settings and memory, which work in turns and are compared."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from bench.measure import (
    Work,
    convolution_rate,
    forget_cache,
    forget_peak,
    median,
    median_ratio,
    peak_memory_bytes,
    time_alternating,
)
from utils.precision import allow_tf32

TURN_S = 0.5


@dataclass(frozen=True)
class Timed:
    """The measurement of a process. seconds: of each call. answer: its last line, as its peak memory in GiB."""

    seconds: list[float]
    answer: float


def serve(make: Callable[[], Work], device: torch.device, *, warm_up: int) -> None:
    """Answer `time_processes`, which has started this process.

    After the first line of input the process makes its work and warms up. For each further line it makes a call, and
    prints its seconds. At the end of the input it prints the peak memory of these calls, in GiB beyond that of the
    imported program.

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


def time_processes(commands: Mapping[str, list[str]], repeats: int) -> dict[str, Timed]:
    """Return the measurements of calls A B A B …; processes import in parallel, and warm up one after the other."""
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for name, command in commands.items()
        }
        for process in processes.values():
            _ask(process)
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, process in processes.items():
                seconds[name].append(float(_ask(process)))
        return {name: Timed(seconds[name], float(_last_word(process))) for name, process in processes.items()}


def time_against_first(
    commands: Mapping[str, list[str]], device: torch.device, repeats: int
) -> Iterator[tuple[str, Timed, Timed]]:
    """Yield each side, its measurement, and that of the first side in the same turns.

    On a CPU all take turns. A GPU has no room for all: there each takes turns with the first, and one that does not fit
    is reported and left out.
    """
    first = next(iter(commands))
    if device.type == "cpu":
        timed = time_processes(commands, repeats)
        yield from ((side, timed[side], timed[first]) for side in commands)
        return
    for side in commands:
        try:
            timed = time_processes({name: commands[name] for name in (first, side)}, repeats)
        except RuntimeError as error:
            print(f"{side}: {error}", flush=True)
            continue
        yield side, timed[side], timed[first]


def _ask(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it has ended; the missing answer is an error
        os.write(process.stdin.fileno(), b"go\n")
    return _answer(process)


def _last_word(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdin is not None
    process.stdin.close()
    return _answer(process)


def _answer(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdout is not None
    line: bytes = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a measuring process ended with code {process.wait()}")
    return line


@dataclass(frozen=True)
class Side:
    """The command that starts a side's process (`bench.processes.serve`), and the dtype in which it computes.

    has_tf32: whether a GPU computes its convolutions of float32 in TF32: torch's default, but not that of O0.
    """

    command: list[str]
    dtype: torch.dtype
    has_tf32: bool = True

    @property
    def arithmetic(self) -> tuple[torch.dtype, bool]:
        """The dtype and TF32, on which the rate of a convolution depends."""
        return self.dtype, self.has_tf32


@dataclass(frozen=True)
class Workload:
    """The work of a call, for every side. flop: the necessary arithmetic, of which a side may do more."""

    name: str
    n_images: int
    flop: int


def compare(workload: Workload, sides: Mapping[str, Side], device: torch.device, repeats: int) -> list[dict[str, Any]]:
    """Return a row for each side, compared with the first."""
    before = convolution_rates(sides, device)
    commands = {name: side.command for name, side in sides.items()}
    timed = list(time_against_first(commands, device, repeats))
    # a shared machine reaches a fraction of its rate at times
    rates = {kind: max(before[kind], rate) for kind, rate in convolution_rates(sides, device).items()}
    rows = []
    for name, result, reference in timed:
        row = {"case": workload.name, "side": name, "dtype": dtype_name(sides[name], device)}
        rows.append(row | columns(workload, result, reference, rates[sides[name].arithmetic]))
    return rows


def convolution_rates(sides: Mapping[str, Side], device: torch.device) -> dict[tuple[torch.dtype, bool], float]:
    """Return the FLOP/s of a plain convolution in the arithmetic of the sides."""
    rates = {}
    for dtype, has_tf32 in {side.arithmetic for side in sides.values()}:
        allow_tf32(has_tf32)
        rates[dtype, has_tf32] = convolution_rate(device, dtype)
    forget_cache(device)
    return rates


def columns(workload: Workload, result: Timed, reference: Timed, rate: float) -> dict[str, float]:
    """Return the figures of a side. rate: of the convolution, in FLOP/s."""
    seconds = median(result.seconds)
    return {
        "s": seconds,
        "images/s": workload.n_images / seconds,
        "times as fast": median_ratio(reference.seconds, result.seconds),
        "TFLOP": workload.flop / 1e12,
        "convolution TFLOP/s": rate / 1e12,
        "share of it": workload.flop / seconds / rate,
        "peak GiB": result.answer,
        "memory ratio": result.answer / reference.answer,
    }


def dtype_name(side: Side, device: torch.device) -> str:
    """Return the name of a side's dtype; TF32 for float32 on a GPU that computes convolutions in it."""
    is_tf32 = device.type == "cuda" and side.dtype == torch.float32 and side.has_tf32
    return "TF32" if is_tf32 else str(side.dtype).removeprefix("torch.")
