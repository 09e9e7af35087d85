"""The processes of a DataLoader, watched: one that dies or hangs ends the wait in words, and none outlives it."""

import math
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.sharedctypes import RawArray
from types import TracebackType
from typing import Generic, Self, TypeVar

from torch.utils.data import DataLoader, get_worker_info

from data.batch import LoadingError

T = TypeVar("T")

POLL_S = 1.0  # the DataLoader's timeout, after which it can be asked again
_REAPING_S = 5.0  # between a process's end and its being known here
_NOTHING = -1
_HINTS = {
    signal.SIGKILL: "often because the memory is full: lower data.workers or train.batch_size",
    signal.SIGBUS: "often because the shared memory (/dev/shm) is full: enlarge it, or set data.workers=0",
}
_HINT = "python -m tools.check_data finds files that do this"


def end_in_words(exit_code: int, sample: str | None) -> str:
    """How a process that loads came to its end, and what it read then, where that is known."""
    how, hint = f"ended with exit code {exit_code}", _HINT
    if exit_code < 0:
        number = signal.Signals(-exit_code)
        how, hint = f"was ended by {number.name}", _HINTS.get(number, _HINT)
    return f"a loader process {how}{f' while it read {sample}' if sample else ''}; {hint}"


class StoppedWaiting(Exception):  # noqa: N818 - no error: the run was asked to stop
    """The run was asked to stop while it waited for a batch."""


class ProcessNotes:
    """Which sample each loader process is reading, in memory that all of them share."""

    def __init__(self, n_processes: int) -> None:
        self._notes = RawArray("q", [_NOTHING] * (2 * n_processes))  # process id and index, in turns

    def write(self, index: int | None) -> None:
        """The present process reads sample `index`, or none; nothing is noted where it is no loader process."""
        worker = get_worker_info()
        if worker is not None:
            self._notes[2 * worker.id : 2 * worker.id + 2] = [os.getpid(), _NOTHING if index is None else index]

    def read(self, process_id: int | None) -> int | None:
        """What a process reads, or read when it ended."""
        index = dict(zip(self._notes[::2], self._notes[1::2], strict=True)).get(process_id, _NOTHING)
        return None if index == _NOTHING else index


class WorkerMonitor(Generic[T]):
    """An iterator over a DataLoader with processes, whose timeout is POLL_S.

    name_of: tells a sample by its index.
    timeout_s: longest that a batch may take, in seconds; 0: for ever.
    should_stop: asked every POLL_S while waiting.
    """

    def __init__(
        self,
        loader: DataLoader[T],
        notes: ProcessNotes,
        *,
        name_of: Callable[[int], str],
        timeout_s: float,
        should_stop: Callable[[], bool],
    ) -> None:
        self._notes = notes
        self._name_of = name_of
        self._timeout_s = timeout_s
        self._should_stop = should_stop
        is_main_thread = threading.current_thread() is threading.main_thread()
        handler = signal.getsignal(signal.SIGCHLD)
        before = set(multiprocessing.active_children())
        self._iterator: Iterator[T] | None = iter(loader)
        self._processes = [process for process in multiprocessing.active_children() if process not in before]
        if is_main_thread:  # the DataLoader's raises wherever the run happens to be, in the midst of saving too
            signal.signal(signal.SIGCHLD, handler or signal.SIG_DFL)
        self._deadline_s = math.inf
        self._is_late = False
        self._ended = threading.Event()
        self._watchdog = threading.Thread(target=self._watch, daemon=True)
        self._watchdog.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._watchdog.join()
        if kind is None or kind is GeneratorExit:
            self._iterator = None  # ends them in good order
        for process in self._processes:
            process.kill()
            process.join()

    def _watch(self) -> None:
        """End the processes when one is late: `next_batch` may wait for it where it cannot look at the clock."""
        while not self._ended.wait(POLL_S):
            if time.monotonic() >= self._deadline_s:
                self._is_late = True
                for process in self._processes:
                    process.kill()
                return

    def next_batch(self, waited_for: str) -> T:
        """The next batch; `waited_for` tells it in words.

        Raises:
            LoadingError: a process was lost, or nothing came in time.
            StoppedWaiting: the run was asked to stop.
        """
        assert self._iterator is not None
        self._deadline_s = time.monotonic() + (self._timeout_s or math.inf)
        while True:
            try:
                batch = next(self._iterator)
            except (RuntimeError, OSError, EOFError) as error:
                is_timeout = str(error).startswith("DataLoader timed out")
                lost = self._lost(0 if is_timeout else _REAPING_S)
                if self._is_late:
                    lost = (
                        f"the loader processes gave nothing for {self._timeout_s:g} s; waited for {waited_for}: see "
                        "whether it can be read, or raise data.timeout_s"
                    )
                if lost:
                    raise LoadingError(lost) from error
                if not is_timeout:
                    raise
                if self._should_stop():
                    raise StoppedWaiting from error
            else:
                self._deadline_s = math.inf
                return batch

    def _lost(self, wait_s: float) -> str | None:
        """What became of a process that has ended, in words."""
        multiprocessing.connection.wait([process.sentinel for process in self._processes], timeout=wait_s)
        for process in self._processes:
            if process.exitcode is None:
                continue
            index = self._notes.read(process.pid)
            return end_in_words(process.exitcode, None if index is None else self._name_of(index))
        return None
