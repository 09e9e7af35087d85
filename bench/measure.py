"""Fair timing: sides take turns, the median counts, and the machine's own limit is measured beside them."""

import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
import torchvision
from torch.utils.flop_counter import FlopCounterMode

Work = Callable[[], object]


def synchronize(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def time_alternating(
    sides: Mapping[str, Work], device: torch.device, *, repeats: int, warm_up: int = 1
) -> dict[str, list[float]]:
    """Seconds of each call, A B A B …, so that a machine whose speed drifts is fair to all sides."""
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


def median(values: list[float]) -> float:
    """The median."""
    return statistics.median(values)


def count_flop(work: Work) -> int:
    """Floating-point operations of the convolutions of one call; a multiplication and an addition are two."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def convolution_rate(device: torch.device, dtype: torch.dtype, *, repeats: int = 7) -> float:
    """FLOP/s of a plain 3x3 convolution of 1024 channels, forward and both gradients: what a step could reach."""
    side = 64 if device.type == "cuda" else 16
    x = torch.randn(1, 1024, side, side, device=device, dtype=dtype, requires_grad=True)
    weight = torch.randn(1024, 1024, 3, 3, device=device, dtype=dtype, requires_grad=True)
    if device.type == "cuda":
        x, weight = (t.detach().to(memory_format=torch.channels_last).requires_grad_() for t in (x, weight))
    gradient = torch.randn_like(x)

    def work() -> None:
        torch.autograd.grad(F.conv2d(x, weight, padding=1), (x, weight), gradient)

    seconds = median(time_alternating({"convolution": work}, device, repeats=repeats, warm_up=2)["convolution"])
    return count_flop(work) / seconds


@dataclass(frozen=True)
class Surroundings:
    """What the figures were measured on."""

    device: str
    threads: int
    torch_version: str
    torchvision_version: str
    python_version: str
    commit: str

    @classmethod
    def here(cls, device: torch.device) -> "Surroundings":
        """This machine and this tree."""
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
        return cls(
            device=name,
            threads=torch.get_num_threads(),
            torch_version=torch.__version__,
            torchvision_version=torchvision.__version__,
            python_version=platform.python_version(),
            commit=_commit(),
        )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.processor()


def _commit() -> str:
    result = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return result.stdout.strip() or "unknown"
