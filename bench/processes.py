"""Sides in processes of their own, for their settings and memory, which work in turns."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial

import torch

from bench.measure import Work, forget_cache, forget_peak, peak_memory_bytes, time_alternating

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
