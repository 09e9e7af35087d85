"""Monitoring of a DataLoader's processes: one that dies or hangs becomes an error with its cause, and none is left."""

import ctypes
import math
import multiprocessing
import multiprocessing.connection
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawArray, RawValue
from typing import Any, Self, cast

from torch.utils.data import DataLoader, get_worker_info

from data.batch import LoadingError
from utils import signals
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


class CurrentSamples:
    """The sample of a side that each loader process is reading, in shared memory."""

    def __init__(self, n_processes: int) -> None:
        self._entries = RawArray("q", [_NOTHING] * (2 * n_processes))  # a side and an index in turn

    def set(self, sample: tuple[int, int] | None) -> None:
        """Record the side and the index that this process reads, or none; outside of loader processes do nothing."""
        worker = get_worker_info()
        if worker is not None:
            self._entries[2 * worker.id : 2 * worker.id + 2] = sample or (_NOTHING, _NOTHING)

    def of_process(self, number: int) -> tuple[int, int] | None:
        """Return side and index that a process is reading, or was reading when it ended; None where there is none."""
        side, index = self._entries[2 * number : 2 * number + 2]
        return None if index == _NOTHING else (side, index)


@dataclass
class WorkerMonitor:
    """Iterates over a DataLoader that has processes and the timeout POLL_S; ends the processes on exit.

    processes: of the loader, which appends them when it starts them, in the order of their numbers.
    sample_of: returns the name of the sample that a process reads, given its number; None where it reads none.
    timeout_s: maximum time for a batch in seconds; 0: no limit.
    should_stop: called every POLL_S while waiting.
    """

    loader: DataLoader[Any]
    processes: Sequence[BaseProcess]
    sample_of: Callable[[int], str | None]
    timeout_s: float
    should_stop: Callable[[], bool]

    def __post_init__(self) -> None:
        with signals.blocked(signals.STOPPING), loaders_without_signal_handler():  # until the processes ignore them
            self._iterator: Iterator[Any] = iter(self.loader)
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
        for process in self.processes:
            process.kill()
            process.join()

    def _watch(self) -> None:
        """End the processes when a batch is late: `next_batch` may be blocked where it cannot check the time."""
        while not self._ended.wait(POLL_S):
            if time.monotonic() >= self._deadline_s:
                self._is_late = True
                for process in self.processes:
                    process.kill()
                return

    def next_batch(self, waited_for: str) -> Any:
        """Return the next batch; `waited_for` describes it in errors.

        Raises:
            LoadingError: a process died, or the batch did not come in time.
            StoppedWaiting: the run was asked to stop.
        """
        self._deadline_s = time.monotonic() + (self.timeout_s or math.inf)
        while True:
            try:
                batch = next(self._iterator)
            except (RuntimeError, OSError, EOFError) as error:
                is_timeout = is_loader_timeout(error)
                lost = self._lost(0 if is_timeout else _REAPING_S)
                if self._is_late:
                    lost = (
                        f"no batch came from the loader processes for {self.timeout_s:g} s; waited for {waited_for}: "
                        "check that it can be read, or raise data.timeout_s"
                    )
                if lost:
                    raise LoadingError(lost) from error
                if not is_timeout:
                    raise
                if self.should_stop():
                    raise StoppedWaiting from error
            else:
                self._deadline_s = math.inf
                return batch

    def _lost(self, wait_s: float) -> str | None:
        """Describe how a process ended, waiting up to `wait_s` seconds for it; None where all are running."""
        ended = multiprocessing.connection.wait([process.sentinel for process in self.processes], timeout=wait_s)
        for number, process in enumerate(self.processes):
            if process.sentinel in ended:
                process.join()  # its sentinel is ready a moment before it has an exit code
            if process.exitcode is not None:
                return describe_exit(process.exitcode, self.sample_of(number))
        return None
