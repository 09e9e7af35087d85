"""Sides of a case compared with its first side: time, share of the machine's convolution rate, peak memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from bench.measure import convolution_rate, forget_cache, median, median_ratio
from bench.processes import Timed, time_against_first


@dataclass(frozen=True)
class Side:
    """The command that starts a side's process (`bench.processes.serve`), and the dtype in which it computes."""

    command: list[str]
    dtype: torch.dtype


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
    rates = {dtype: max(before[dtype], rate) for dtype, rate in convolution_rates(sides, device).items()}
    rows = []
    for name, result, reference in timed:
        dtype = sides[name].dtype
        row = {"case": workload.name, "side": name, "dtype": dtype_name(dtype, device)}
        rows.append(row | columns(workload, result, reference, rates[dtype]))
    return rows


def convolution_rates(sides: Mapping[str, Side], device: torch.device) -> dict[torch.dtype, float]:
    """Return the FLOP/s of a plain convolution in the dtypes of the sides."""
    rates = {dtype: convolution_rate(device, dtype) for dtype in {side.dtype for side in sides.values()}}
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


def dtype_name(dtype: torch.dtype, device: torch.device) -> str:
    """Return the name of a dtype; TF32 for float32 on a GPU that computes convolutions in it."""
    is_tf32 = device.type == "cuda" and dtype == torch.float32 and torch.backends.cudnn.allow_tf32
    return "TF32" if is_tf32 else str(dtype).removeprefix("torch.")
