"""Loading in processes that are monitored: one that dies or hangs becomes an error with its cause, and none is left."""

import ctypes
import math
import multiprocessing
import multiprocessing.connection
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawArray, RawValue
from typing import Any, Self, cast

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from data.batch import LoadingError
from data.layout import Layout, describe_sample
from utils import signals
from utils.text import exact
from utils.torch_private import is_loader_timeout, loaders_without_signal_handler

POLL_S = 1.0  # the DataLoader's timeout, after which waiting can continue
_REAPING_S = 5.0  # maximum time between the end of a process and its exit code
_NOTHING = -1
_HINTS = {
    "SIGKILL": "often because the memory is full: lower data.workers or train.batch_size",
    "SIGBUS": "often because the shared memory (/dev/shm) is full: enlarge it, or set data.workers=0",
}
_HINT = "python -m tools.check_data finds files that cause this"


class LockFreeEvent:
    """A flag in shared memory: of multiprocessing.Event, the part that a DataLoader uses.

    A multiprocessing.Event has a lock, which a process takes whenever it reads the flag. One that is killed then, as
    by the kernel where memory is full, leaves the lock taken: all that read the flag later wait without end.
    """

    def __init__(self) -> None:
        self._flag = RawValue(ctypes.c_bool, False)

    def set(self) -> None:
        """Set the flag."""
        self._flag.value = True

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return bool(self._flag.value)


def worker_context(processes: list[BaseProcess]) -> BaseContext:
    """Return the default context of multiprocessing, with LockFreeEvent as its events.

    processes: to which each process that is made is appended. One that ends at once is missing from
        multiprocessing.active_children.
    """
    context: Any = type(cast(Any, multiprocessing.get_context()))()
    process_class = context.Process

    def recorded(*arguments: Any, **settings: Any) -> BaseProcess:
        process: BaseProcess = process_class(*arguments, **settings)
        processes.append(process)
        return process

    vars(context).update(Event=LockFreeEvent, Process=recorded)
    if context.get_start_method() == "forkserver":  # else it starts where signals are held back, which all of its
        import multiprocessing.forkserver as forkserver  # processes would inherit, also those of other code

        forkserver.ensure_running()
    return cast(BaseContext, context)


def describe_exit(exit_code: int, sample: str | None) -> str:
    """Return how a loader process ended, which sample it was reading, where that is known, and a remedy."""
    how, hint = f"ended with exit code {exit_code}", _HINT
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        how, hint = f"was ended by {name}", _HINTS.get(name, _HINT)
    return f"a loader process {how}{f' while it read {sample}' if sample else ''}; {hint}"


class StoppedWaiting(Exception):  # noqa: N818  not an error: the run was asked to stop
    """The run was asked to stop while it waited for a batch."""


class MonitoredDataset(Dataset[Any]):
    """Samples of a layout, which loader processes read; each records which sample of a side it is reading."""

    layout: Layout
    reading: ctypes.Array[ctypes.c_int64]
    """A side and an index for each loader process in turn, in shared memory."""

    def record(self, *sample: int) -> None:
        """Record side and index of what this process reads, or nothing; outside of loader processes do nothing."""
        if worker := get_worker_info():
            self.reading[2 * worker.id : 2 * worker.id + 2] = list(sample) or [_NOTHING, _NOTHING]


@dataclass
class WorkerMonitor:
    """Loads batches in processes, by a DataLoader with the timeout POLL_S; ends the processes on exit.

    batches: the keys of each batch, which have an index. collate: makes a batch of what `dataset` returns for its keys.
    timeout_s: maximum time for a batch in seconds; 0: no limit.
    should_stop: called every POLL_S while waiting.
    lost: index of the sample at which a process ended, or that did not come; of a batch of several the first.
    """

    dataset: MonitoredDataset
    batches: Iterable[list[Any]]
    collate: Callable[[Any], object]
    n_processes: int
    timeout_s: float
    should_stop: Callable[[], bool] = lambda: False
    pin_memory: bool = False

    def __post_init__(self) -> None:
        self.lost = _NOTHING
        self.dataset.reading = RawArray("q", [_NOTHING] * (2 * self.n_processes))
        self._processes: list[BaseProcess] = []  # in the order of their numbers
        loader: DataLoader[Any] = DataLoader(
            self.dataset,
            batch_sampler=self.batches,
            num_workers=self.n_processes,
            collate_fn=self.collate,
            pin_memory=self.pin_memory,
            timeout=POLL_S,
            worker_init_fn=_ignore_signals,
            multiprocessing_context=worker_context(self._processes),
            generator=torch.Generator(),  # not the global one, from which dropout draws
        )
        with signals.blocked(signals.STOPPING), loaders_without_signal_handler():  # until the processes ignore them
            self._iterator = iter(loader)
        self._deadline_s = math.inf
        self._is_late = False
        self._ended = threading.Event()
        self._watchdog = threading.Thread(target=self._watch, daemon=True)
        self._watchdog.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._watchdog.join()
        if kind is None or kind is GeneratorExit:
            del self._iterator  # shuts the processes down
        for process in self._processes:
            process.kill()
            process.join()

    def _watch(self) -> None:
        """End the processes when a batch is late: `_next_batch` may be blocked where it cannot check the time."""
        while not self._ended.wait(POLL_S):
            if time.monotonic() >= self._deadline_s:
                self._is_late = True
                for process in self._processes:
                    process.kill()
                return

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches in order.

        Raises:
            LoadingError: a process died, or a batch did not come in time.
            StoppedWaiting: the run was asked to stop.
        """
        layout = self.dataset.layout
        for keys in self.batches:
            self.lost = keys[0].index
            yield self._next_batch(", ".join(describe_sample(layout, key.index) for key in keys))

    def _next_batch(self, waited_for: str) -> object:
        self._deadline_s = time.monotonic() + (self.timeout_s or math.inf)
        while True:
            try:
                batch = next(self._iterator)
            except (RuntimeError, OSError, EOFError) as error:
                is_timeout = is_loader_timeout(error)
                problem = self._end(0 if is_timeout else _REAPING_S)
                if self._is_late:
                    problem = (
                        f"nothing came from the loader processes for {exact(self.timeout_s)} s; "
                        f"waited for {waited_for}: check that it can be read, or raise data.timeout_s"
                    )
                if problem:
                    raise LoadingError(problem) from error
                if not is_timeout:
                    raise
                if self.should_stop():
                    raise StoppedWaiting from error
            else:
                self._deadline_s = math.inf
                return batch

    def _end(self, wait_s: float) -> str | None:
        """Describe how a process ended, waiting up to `wait_s` seconds for it; None where all are running."""
        ended = multiprocessing.connection.wait([process.sentinel for process in self._processes], timeout=wait_s)
        for number, process in enumerate(self._processes):
            if process.sentinel in ended:
                process.join()  # its sentinel is ready a moment before it has an exit code
            if process.exitcode is not None:
                side, index = self.dataset.reading[2 * number : 2 * number + 2]
                if index == _NOTHING:
                    return describe_exit(process.exitcode, None)
                self.lost = self.lost if self._is_late else index  # late, all processes have been ended
                return describe_exit(process.exitcode, describe_sample(self.dataset.layout.sides[side], index))
        return None


def _ignore_signals(_worker: int) -> None:
    """Ignore Ctrl-C and what else reaches a process group: the parent handles it, and ends this process."""
    signals.ignore(signals.STOPPING)
