"""Every sample of a layout looked at, in processes of their own: what a decoder does to its process is told too."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
import torch

from data.layout import Layout, describe_sample
from data.loader import as_data_error
from data.preprocessing import Preprocessing
from data.worker_monitor import POLL_S, end_in_words

_AHEAD = 16  # samples that a process is given before it has answered
_ORPHAN_S = 5.0
_GRACE_S = 5.0  # between the end of a process's answers and its own


@dataclass(frozen=True)
class Checked:
    """A sample that was looked at.

    problems: none where it is good.
    height, width: as training sees it, in pixels; 0 where it cannot be used.
    ends_process: whether the process that read it came to its end by that.
    """

    index: int
    problems: tuple[str, ...]
    height: int = 0
    width: int = 0
    ends_process: bool = False


@dataclass(frozen=True)
class Check:
    """What to look at. is_for_training: cut as in training, otherwise as in validation and testing."""

    layout: Layout
    preprocessing: Preprocessing
    is_for_training: bool

    def __call__(self, index: int) -> Checked:
        """Read sample `index` as training or testing does."""
        try:
            sample = self.layout.read(index)
            if self.is_for_training:
                placement = self.preprocessing.draw(sample, np.random.default_rng(0))
            else:
                placement = self.preprocessing.fixed(sample)
        except Exception as error:  # noqa: BLE001  a fault of ours is told with its sample
            return Checked(index, as_data_error(error, describe_sample(self.layout, index)).problems)
        return Checked(index, (), placement.crop_height, placement.crop_width)


def check_all(check: Check, *, n_processes: int, timeout_s: float) -> Iterator[Checked]:
    """Every sample, in the order in which processes are done with them.

    timeout_s: longest that one may take, in seconds; 0: for ever.
    """
    to_do = deque(range(len(check.layout)))
    workers = [_Worker(check) for _ in range(min(n_processes, len(to_do)))]
    try:
        while True:
            for worker in workers:
                worker.give(to_do)
            busy = [worker.connection for worker in workers if worker.given]
            if not busy:
                return
            ready = multiprocessing.connection.wait(busy, timeout=POLL_S)
            for number, worker in enumerate(workers):
                if worker.connection in ready:
                    checked = worker.answer()
                elif worker.given and 0 < timeout_s < worker.waited_s():
                    checked = worker.give_up(f"takes more than {timeout_s:g} s; see whether it can be read")
                else:
                    continue
                if checked.ends_process:
                    to_do.extendleft(reversed(worker.given))
                    workers[number] = _Worker(check)
                yield checked
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """A process that checks samples, and what it was given and has not answered yet."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self.connection, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_work, args=(check, theirs, os.getpid()), daemon=True)
        self._process.start()
        theirs.close()
        self.given: deque[int] = deque()
        self._since_s = time.monotonic()

    def give(self, to_do: deque[int]) -> None:
        """Take samples from `to_do`."""
        while to_do and len(self.given) < _AHEAD:
            self.given.append(to_do.popleft())
            with suppress(OSError):  # it has just come to its end, which asking it for an answer will show
                self.connection.send(self.given[-1])

    def waited_s(self) -> float:
        """Since the last answer."""
        return time.monotonic() - self._since_s

    def answer(self) -> Checked:
        """The next answer, or what became of the process before it."""
        index = self.given.popleft()
        self._since_s = time.monotonic()
        try:
            checked: Checked = self.connection.recv()
        except (EOFError, OSError):
            exit_code = self.end(grace_s=_GRACE_S)
            problem = end_in_words(exit_code, describe_sample(self._check.layout, index))
            return Checked(index, (problem,), ends_process=True)
        return checked

    def give_up(self, why: str) -> Checked:
        """End the process, which does not answer."""
        self.end()
        index = self.given.popleft()
        return Checked(index, (f"{describe_sample(self._check.layout, index)}: {why}",), ends_process=True)

    def end(self, grace_s: float = 0.0) -> int:
        """End the process; returns its exit code, of its own end where it comes to that within `grace_s` seconds."""
        self._process.join(timeout=grace_s)
        self._process.kill()
        self._process.join()
        self.connection.close()
        return self._process.exitcode or 0


def _work(check: Check, connection: Connection, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    torch.set_num_threads(1)
    while True:
        while not connection.poll(_ORPHAN_S):
            if os.getppid() != parent:
                return
        connection.send(check(connection.recv()))
