"""Loading in processes that are monitored: one that dies or hangs becomes an error with its cause, and none is left.

Each process has its own connection to this one, so no lock that a killed process has taken can block the others.
"""

import ctypes
import math
import multiprocessing
import signal
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle, islice
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawArray
from typing import Any, NoReturn, Self

import torch

from data.batch import LoadingError, SentBatch
from data.layout import Layout, describe_sample
from utils import signals
from utils.text import exact

POLL_S = 1.0  # time between two calls of `should_stop`
_REAPING_S = 5.0  # maximum time between the end of a connection and the exit code of its process
_AHEAD = 2  # batches that each process is asked for in advance
_NOTHING = -1
_HINTS = {
    "SIGKILL": "often because the memory is full: lower data.workers or train.batch_size",
    "SIGBUS": "often because the shared memory (/dev/shm) is full: enlarge it, or set data.workers=0",
}
_HINT = "python -m tools.check_data finds files that cause this"


def describe_exit(exit_code: int, sample: str | None) -> str:
    """Return how a loader process ended, which sample it was reading, if that is known, and a remedy."""
    how, hint = f"ended with exit code {exit_code}", _HINT
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        how, hint = f"was ended by {name}", _HINTS.get(name, _HINT)
    return f"a loader process {how}{f' while it read {sample}' if sample else ''}; {hint}"


class StoppedWaiting(Exception):  # noqa: N818  not an error: the run was asked to stop
    """The run was asked to stop while it waited for a batch."""


class MonitoredDataset(ABC):
    """Samples of a layout, by keys that have an index. A loader process records which sample it is reading."""

    layout: Layout
    reading: ctypes.Array[ctypes.c_int64] | None = None
    """Domain and index of the sample, in shared memory; None in other processes than loader processes."""

    def record(self, side: int = _NOTHING, index: int = _NOTHING) -> None:
        """Record the sample that is read from now on, by default none."""
        if self.reading is not None:
            self.reading[:] = [side, index]

    @abstractmethod
    def __getitem__(self, key: Any) -> Any:
        """Return the sample of a key."""


@dataclass(frozen=True)
class _Worker:
    process: BaseProcess
    connection: Any  # an end of a pipe; its class depends on the system
    reading: ctypes.Array[ctypes.c_int64]


@dataclass
class WorkerMonitor:
    """Loads batches in processes, in order; ends the processes on exit.

    batches: Keys of each batch. collate: Makes a batch from a list of what `dataset` returns for its keys.
    timeout_s: Maximum time for a batch in seconds; 0: no limit.
    should_stop: Called every POLL_S while waiting.
    lost: Index of the sample at which a process ended, or of the first sample of a batch that did not come.
    """

    dataset: MonitoredDataset
    batches: Iterable[list[Any]]
    collate: Callable[[Any], object]
    n_processes: int
    timeout_s: float
    should_stop: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self.lost = _NOTHING
        if multiprocessing.get_context().get_start_method() == "forkserver":  # its processes inherit its signal mask
            from multiprocessing import forkserver

            forkserver.ensure_running()
        with signals.blocked(signals.STOPPING):  # until the processes ignore them
            self._workers = [self._start() for _ in range(self.n_processes)]

    def _start(self) -> _Worker:
        connection, of_process = multiprocessing.Pipe()
        reading = RawArray("q", [_NOTHING, _NOTHING])
        arguments = (of_process, self.dataset, self.collate, reading)
        process = multiprocessing.get_context().Process(target=_work, args=arguments, daemon=True)
        process.start()
        of_process.close()
        return _Worker(process, connection, reading)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches in order.

        Raises:
            LoadingError: A process died, or a batch did not come in time.
            StoppedWaiting: The run was asked to stop.
        """
        batches, workers = iter(self.batches), cycle(self._workers)
        asked = deque[tuple[_Worker, list[Any]]]()
        while True:
            for keys in islice(batches, _AHEAD * self.n_processes - len(asked)):
                asked.append((next(workers), keys))
                with suppress(OSError):  # the process has ended, which shows when its batch is waited for
                    asked[-1][0].connection.send(keys)
            if not asked:
                return
            yield self._receive(*asked.popleft())

    def _receive(self, worker: _Worker, keys: list[Any]) -> object:
        """Wait for the batch of some keys."""
        by_sentinel = {other.process.sentinel: other for other in self._workers}
        deadline_s = time.monotonic() + (self.timeout_s or math.inf)
        while not (ready := wait([worker.connection, *by_sentinel], POLL_S)):
            if time.monotonic() >= deadline_s:
                self.lost = keys[0].index
                waited_for = ", ".join(describe_sample(self.dataset.layout, key.index) for key in keys)
                raise LoadingError(
                    f"nothing came from the loader processes for {exact(self.timeout_s)} s; "
                    f"waited for {waited_for}: check that it can be read, or raise data.timeout_s"
                )
            if self.should_stop():
                raise StoppedWaiting
        if worker.connection not in ready:
            self._raise_end(next(by_sentinel[sentinel] for sentinel in ready if isinstance(sentinel, int)))
        try:
            batch = worker.connection.recv()
            return batch.received(worker.connection) if isinstance(batch, SentBatch) else batch
        except (OSError, EOFError):
            self._raise_end(worker)

    def _raise_end(self, worker: _Worker) -> NoReturn:
        """Raise LoadingError for a process that has ended or is about to end."""
        worker.process.join(_REAPING_S)
        side, self.lost = worker.reading
        is_known = self.lost != _NOTHING
        sample = describe_sample(self.dataset.layout.sides[side], self.lost) if is_known else None
        raise LoadingError(describe_exit(worker.process.exitcode or 0, sample))


def _work(
    connection: Any,
    dataset: MonitoredDataset,
    collate: Callable[[Any], object],
    reading: ctypes.Array[ctypes.c_int64],
) -> None:
    """Send the batch of each list of keys that arrives, until the other process ends.

    Ctrl-C and other signals reach the whole process group. The other process handles them, and ends this one.
    """
    signals.ignore(signals.STOPPING)
    torch.set_num_threads(1)
    dataset.reading = reading
    parent = multiprocessing.parent_process()
    assert parent is not None
    with suppress(EOFError, ConnectionError):  # the other process has ended
        while connection in wait([connection, parent.sentinel]):
            batch = collate([dataset[key] for key in connection.recv()])
            batch.send(connection) if isinstance(batch, SentBatch) else connection.send(batch)
