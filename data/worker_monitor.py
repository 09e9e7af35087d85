"""Loader processes. If a process dies or hangs, the run gets an error with the cause. No process outlives the run.

The processes share no lock. A killed process therefore cannot block other processes.
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

from data.batch import LoadingError
from data.layout import Layout, describe_sample
from utils import signals
from utils.text import exact

POLL_S = 1.0  # time between two calls of `should_stop`
_REAPING_S = 5.0  # maximum wait for the exit code of a process that has closed its connection
_AHEAD = 2  # batches requested from each process in advance
_NOTHING = -1
_Reading = ctypes.Array[ctypes.c_int64]


class StoppedWaiting(Exception):  # noqa: N818  not an error: the run was asked to stop
    """The run was asked to stop while it waited for a batch."""


class MonitoredDataset(ABC):
    """A data set that records which sample each loader process is reading. Its keys must have an `index`."""

    layout: Layout
    reading: _Reading | None = None
    """Domain and index of the sample, in memory shared with the main process; None outside loader processes."""

    def record(self, side: int = _NOTHING, index: int = _NOTHING) -> None:
        """Record which sample this process starts to read. Without arguments, record that it reads no sample."""
        if self.reading is not None:
            self.reading[:] = [side, index]

    @abstractmethod
    def __getitem__(self, key: Any) -> Any:
        """Return the sample of a key."""


@dataclass(frozen=True)
class _Worker:
    process: BaseProcess
    connection: Any  # an end of a pipe; its class depends on the system
    reading: _Reading


@dataclass
class WorkerMonitor:
    """A context manager that loads batches in processes, yields them in order, and ends the processes on exit.

    batches: Keys of each batch.
    collate: Function that converts a list of samples to a batch.
    timeout_s: Maximum time for a batch in seconds; 0: no limit.
    should_stop: Function that is called every POLL_S seconds during waiting. If it returns True, waiting ends.
    lost: Index of the sample that a process was reading when it died, or first index of a batch that did not arrive.
    """

    dataset: MonitoredDataset
    batches: Iterable[list[Any]]
    collate: Callable[[Any], object]
    n_processes: int
    timeout_s: float
    should_stop: Callable[[], bool] = lambda: False
    lost: int = _NOTHING

    def __enter__(self) -> Self:
        context = multiprocessing.get_context()
        if context.get_start_method() == "forkserver":  # start the server before signals are blocked
            from multiprocessing import forkserver

            forkserver.ensure_running()
        self._workers = list[_Worker]()
        with signals.blocked(signals.STOPPING):  # so that each process starts with blocked signals
            for _ in range(self.n_processes):
                connection, of_process = multiprocessing.Pipe()
                reading = RawArray("q", [_NOTHING, _NOTHING])
                arguments = (of_process, self.dataset, self.collate, reading)
                process = context.Process(target=_work, args=arguments, daemon=True)
                process.start()
                of_process.close()
                self._workers.append(_Worker(process, connection, reading))
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
            LoadingError: A process died, or a batch did not arrive in time.
            StoppedWaiting: The run was asked to stop.
        """
        batches, workers = iter(self.batches), cycle(self._workers)
        requested = deque[tuple[_Worker, list[Any]]]()
        while True:
            for keys in islice(batches, _AHEAD * self.n_processes - len(requested)):
                requested.append((next(workers), keys))
                with suppress(OSError):  # the process has ended; `_receive` reports it
                    requested[-1][0].connection.send(keys)
            if not requested:
                return
            yield self._receive(*requested.popleft())

    def _receive(self, worker: _Worker, keys: list[Any]) -> object:
        """Wait for the batch of `keys` from `worker`, and return it."""
        by_sentinel = {other.process.sentinel: other for other in self._workers}
        deadline_s = time.monotonic() + (self.timeout_s or math.inf)
        while not (ready := wait([worker.connection, *by_sentinel], POLL_S)):
            if time.monotonic() >= deadline_s:
                self.lost = keys[0].index
                samples = ", ".join(describe_sample(self.dataset.layout, key.index) for key in keys)
                raise LoadingError(
                    f"no batch came from the loader processes for {exact(self.timeout_s)} s; "
                    f"waited for {samples}: check that their files can be read, or raise data.timeout_s"
                )
            if self.should_stop():
                raise StoppedWaiting
        if worker.connection not in ready:
            self._raise_end(next(by_sentinel[sentinel] for sentinel in ready if isinstance(sentinel, int)))
        try:
            return worker.connection.recv()
        except (OSError, EOFError):
            self._raise_end(worker)

    def _raise_end(self, worker: _Worker) -> NoReturn:
        """Raise LoadingError, because a process has ended or is about to end. Name the sample that it was reading."""
        worker.process.join(_REAPING_S)
        side, self.lost = worker.reading
        exit_code = worker.process.exitcode or 0
        how = f"by {signal.Signals(-exit_code).name}" if exit_code < 0 else f"with exit code {exit_code}"
        if self.lost != _NOTHING:
            how += f" while it read {describe_sample(self.dataset.layout.sides[side], self.lost)}"
        hint = "python -m tools.check_data finds files that cause this"
        if how.startswith("by SIGKILL"):  # Windows has no such signal
            hint = "often because the memory is full: lower data.workers or train.batch_size"
        raise LoadingError(f"a loader process ended {how}; {hint}")


def _work(connection: Any, dataset: MonitoredDataset, collate: Callable[[Any], object], reading: _Reading) -> None:
    """Receive lists of keys and send back batches, until the main process ends.

    Ctrl-C and other signals reach the whole process group. The main process handles them, and ends this process.
    """
    signals.ignore(signals.STOPPING)
    torch.set_num_threads(1)
    dataset.reading = reading
    parent = multiprocessing.parent_process()
    assert parent is not None
    with suppress(EOFError, ConnectionError):  # the main process has ended
        while connection in wait([connection, parent.sentinel]):
            connection.send(collate([dataset[key] for key in connection.recv()]))
