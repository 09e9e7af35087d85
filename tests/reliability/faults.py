"""Faults at chosen instants of a training: a function of the product is replaced by one that goes wrong on the way."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist

import losses
from data.loader import TrainingDataset
from models.global_generator import GlobalGenerator
from training import checkpointing as saving
from training.batches import BatchReader
from training.optimizer_group import OptimizerGroup
from training.validation import Validation
from utils import fault_points

# where a fault can strike -> the function at whose call it does
PLACES: dict[str, tuple[Any, str]] = {
    "waiting for data": (BatchReader, "read_step"),
    "loading": (TrainingDataset, "__getitem__"),
    "forward": (GlobalGenerator, "forward"),
    "backward": (OptimizerGroup, "backward"),
    "step": (OptimizerGroup, "step"),
    "loss": (losses, "l1"),
    "validation": (Validation, "run"),
    "save": (saving, "save_checkpoint"),
    "agreement": (dist, "all_reduce"),
}


@dataclass(frozen=True)
class Fault:
    """A failure, and where it strikes.

    how: "raise", "hang", "nan" (the result), or a signal that is sent to this process. call: from 1.
    rank: the process of several that fails.
    """

    place: str
    how: str
    call: int = 1
    rank: int = 0

    def __str__(self) -> str:
        return f"{self.how} in {self.place}"

    def strike(self) -> None:
        if self.how == "raise":
            raise RuntimeError("a fault of a test")
        if self.how == "hang":
            time.sleep(3600)
        else:
            os.kill(os.getpid(), signal.Signals[self.how])


def replacement(fault: Fault, original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, with the fault at the beginning of one of its calls."""
    calls = 0

    def faulty(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != fault.call:
            return original(*args, **kwargs)
        if fault.how == "nan":
            return original(*args, **kwargs) * float("nan")
        fault.strike()
        return original(*args, **kwargs)

    return faulty


def inject(fault: Fault) -> None:
    """Replace for good: for processes of their own; tests in this one use monkeypatch and `replacement`."""
    owner, name = PLACES[fault.place]
    if int(os.environ.get("RANK", "0")) == fault.rank:
        setattr(owner, name, replacement(fault, getattr(owner, name)))


def strike_at(instant: str, suffix: str, nth: int, strike: Callable[[], object]) -> Callable[[str, Path], None]:
    """A replacement of `fault_points.reached`: it strikes the nth time that a file of a suffix reaches a point."""
    calls = 0

    def reached(name: str, path: Path) -> None:
        nonlocal calls
        calls += (name, path.suffix) == (instant, suffix)
        if (name, path.suffix) == (instant, suffix) and calls == nth:
            strike()

    return reached


def kill_at(instant: str, suffix: str, nth: int) -> None:
    """Have this process die, for processes of their own."""
    strike = strike_at(instant, suffix, nth, lambda: os.kill(os.getpid(), signal.SIGKILL))
    fault_points.reached = strike  # type: ignore[assignment]


def inject_once(fault: Fault, struck: Path) -> None:
    """`inject`, unless the file `struck` says that it has been done before."""
    if not struck.exists():
        inject(fault)
    if int(os.environ["RANK"]) == fault.rank:
        struck.touch()
