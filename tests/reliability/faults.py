"""Faults at chosen instants of a training: a function of the product is replaced by one that goes wrong on the way."""

import faulthandler
import os
import signal
import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import losses
from data import map_reader
from data.folder import File
from data.loader import TrainingDataset
from models.global_generator import GlobalGenerator
from training import launch
from training import run_folder as saving
from training.batches import BatchReader
from training.optimizer_group import OptimizerGroup
from training.validation import Validation
from utils import files

# name of the place -> the function whose call fails
PLACES: dict[str, tuple[Any, str]] = {
    "building": (launch, "build_training"),
    "preparing the folder": (launch, "write_settings"),
    "reading": (torch, "load"),
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


def struck(original: Callable[..., Any], calls: Container[int], strike: Callable[[], object]) -> Callable[..., Any]:
    """`original`, before whose calls of those numbers, from 1, `strike` is called."""
    numbers = count(1)

    def faulty(*args: Any, **kwargs: Any) -> Any:
        if next(numbers) in calls:
            strike()
        return original(*args, **kwargs)

    return faulty


def spoilt(original: Callable[..., Any], calls: Container[int], factor: float) -> Callable[..., Any]:
    """`original`, whose results of the calls of those numbers, from 1, are multiplied."""
    numbers = count(1)
    return lambda *args, **kwargs: original(*args, **kwargs) * (factor if next(numbers) in calls else 1)


def failing(original: Callable[..., Any], calls: Container[int], errno: int = 28) -> Callable[..., Any]:
    """`original`, whose calls of those numbers, from 1, fail as a full disk does, or one with another error."""
    return struck(original, calls, lambda: throw(OSError(errno, os.strerror(errno))))


def throw(error: BaseException) -> None:
    raise error


def replacement(fault: Fault, original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, with the fault at the beginning of one of its calls."""
    if fault.how == "nan":
        return spoilt(original, [fault.call], float("nan"))
    return struck(original, [fault.call], fault.strike)


def strike_here(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the fault into this process until the test, or the context of `monkeypatch`, ends."""
    owner, name = PLACES[fault.place]
    monkeypatch.setattr(owner, name, replacement(fault, getattr(owner, name)))


def inject(fault: Fault) -> None:
    """Replace for good, in processes of their own."""
    if int(os.environ.get("RANK", "0")) == fault.rank:
        strike_here(fault, pytest.MonkeyPatch())


def inject_once(fault: Fault, struck_before: Path) -> None:
    """`inject`, unless the file `struck_before` shows that it has been done before."""
    if not struck_before.exists():
        inject(fault)
    if int(os.environ["RANK"]) == fault.rank:
        struck_before.touch()


def send(number: signal.Signals) -> Callable[[], None]:
    """Send a signal to the process that calls what is returned."""

    def fault() -> None:
        faulthandler.disable()  # pytest's would report a crash that is meant
        os.kill(os.getpid(), number)

    return fault


def strike_reading(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[], object], names: Container[str], after: int = 0
) -> None:
    """Let reading RGB files of these names fail in processes forked from this one, once each has read `after` files."""
    read_rgb, parent, n_read = map_reader.read_rgb, os.getpid(), count()

    def read(file: File) -> torch.Tensor:
        if os.getpid() != parent and next(n_read) >= after and Path(str(file)).name in names:
            fault()
        return read_rgb(file)

    monkeypatch.setattr(map_reader, "read_rgb", read)


def strike_at(instant: str, suffix: str, nth: int, strike: Callable[[], object]) -> Callable[[str, Path], None]:
    """A replacement of `files.fault_point`: it strikes the nth time that a file of a suffix reaches a point."""
    strikes = struck(lambda: None, [nth], strike)
    return lambda name, path: strikes() if (name, path.suffix) == (instant, suffix) else None


def kill_at(instant: str, suffix: str, nth: int) -> None:
    """Have this process die, for processes of their own."""
    kill = partial(os.kill, os.getpid(), signal.SIGKILL)
    files.fault_point = strike_at(instant, suffix, nth, kill)  # type: ignore[assignment]
