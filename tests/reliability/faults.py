"""Faults at chosen instants of a training: a function of the product is replaced by one that goes wrong on the way."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist

from data.loader import TrainingDataset
from models.global_generator import GlobalGenerator
from training import checkpointing as saving
from training.loop import Training
from training.trainable import TrainableNetwork
from training.update import AdversarialUpdate
from utils import instants

# where a fault can strike -> the function at whose call it does
PLACES: dict[str, tuple[Any, str]] = {
    "waiting for data": (Training, "_take"),
    "loading": (TrainingDataset, "__getitem__"),
    "forward": (GlobalGenerator, "forward"),
    "backward": (TrainableNetwork, "backward"),
    "step": (TrainableNetwork, "step"),
    "loss": (AdversarialUpdate, "_generator_loss"),
    "validation": (Training, "_validate"),
    "save": (saving, "save_checkpoint"),
    "agreement": (dist, "all_reduce"),
    "retention": (saving, "remove_old_checkpoints"),
}
INSTANTS = ("written", "synced", "renamed", "removed")  # of utils/instants.py


@dataclass(frozen=True)
class Fault:
    """What goes wrong.

    how: "raise", "hang", "nan" (the result), or a signal that is sent to this process. call: from 1.
    rank: the process of several that fails. file: at instants, how the name of the file ends of which they are.
    """

    place: str
    how: str
    call: int = 1
    rank: int = 0
    file: str = ""

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


def at_instant(fault: Fault) -> Callable[[str, Path], None]:
    """What stands for `instants.reached` so that the fault is at one of them."""
    calls = 0

    def reached(name: str, path: Path) -> None:
        nonlocal calls
        if name == fault.place and path.name.endswith(fault.file):
            calls += 1
            if calls == fault.call:
                fault.strike()

    return reached


def inject(fault: Fault) -> None:
    """Replace for good: for processes of their own; tests in this one use monkeypatch and `replacement`."""
    if int(os.environ.get("RANK", "0")) != fault.rank:
        return
    if fault.place in INSTANTS:
        instants.reached = at_instant(fault)  # type: ignore[assignment]
        return
    owner, name = PLACES[fault.place]
    setattr(owner, name, replacement(fault, getattr(owner, name)))


def inject_once(fault: Fault, struck: Path) -> None:
    """`inject`, unless the file `struck` says that it has been done before."""
    if not struck.exists():
        inject(fault)
    if int(os.environ["RANK"]) == fault.rank:
        struck.touch()
