"""Sides of a case compared with its first side: time, share of the machine's convolution rate, peak memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from bench.measure import convolution_rate, forget_cache, median, median_ratio
from bench.processes import Timed, time_against_first
from utils.precision import allow_tf32


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
