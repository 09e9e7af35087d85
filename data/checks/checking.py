"""Checks of every sample of a layout, in separate processes: a decoder that crashes is reported with its file."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import numpy as np
import torch

from data.checks.observation import Observation, observe, values_of
from data.checks.palettes import label_map
from data.files.image_files import read_ids
from data.layout import Layout, describe_sample
from data.loader import as_data_error
from data.preprocessing import Preprocessing
from data.value_range import ValueRange
from data.worker_monitor import POLL_S, describe_exit

_AHEAD = 16  # samples in the queue of a process
_ORPHAN_S = 5.0  # time after which a process without work checks whether its parent lives
_GRACE_S = 5.0  # time for a process to exit after its connection has closed


@dataclass(frozen=True)
class Checked:
    """The result of checking a sample.

    problems: empty where the sample can be used.
    height, width: size after preprocessing, in pixels; 0 where the sample cannot be used.
    ends_process: whether the process that read it ended.
    ids: of the label map as stored, those that are no class included; empty where there is none.
    outside, types: of images that are not 8-bit RGB, by kind, the share of values outside their range and the type.
    observation: of a sample that can be used.
    """

    index: int
    problems: tuple[str, ...]
    height: int = 0
    width: int = 0
    ends_process: bool = False
    ids: frozenset[int] = frozenset()
    outside: Mapping[str, float] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    observation: Observation | None = None


@dataclass(frozen=True)
class Check:
    """The check of one sample.

    is_for_training: preprocess as in training, otherwise as in validation and testing.
    ranges: of the values of images that are not 8-bit RGB, by kind: "source", "target".
    """

    layout: Layout
    preprocessing: Preprocessing
    is_for_training: bool
    ranges: Mapping[str, ValueRange] = field(default_factory=dict)

    def __call__(self, index: int) -> Checked:
        """Check sample `index` by reading and placing it."""
        ids = _ids_of_label_map(self.layout, index)
        try:
            sample = self.layout.read(index)
            if self.is_for_training:
                placement = self.preprocessing.draw(sample, np.random.default_rng(0)).source
            else:
                placement = self.preprocessing.fixed(sample).source
            observation = observe(self.layout, index, sample)
        except Exception as error:  # noqa: BLE001  a bug is reported with its sample
            return Checked(index, as_data_error(error, describe_sample(self.layout, index)).problems, ids=ids)
        maps = {kind: getattr(sample, kind) for kind in self.ranges}
        images = {kind: image for kind, image in maps.items() if image is not None}
        return Checked(
            index,
            (),
            placement.crop_height,
            placement.crop_width,
            ids=ids,
            outside={kind: self.ranges[kind].outside(image) for kind, image in images.items()},
            types={kind: str(image.dtype).removeprefix("torch.") for kind, image in images.items()},
            observation=observation,
        )


def _ids_of_label_map(layout: Layout, index: int) -> frozenset[int]:
    """Return the ids in the file of a label map, which `Layout.read` refuses or replaces if they are no class."""
    file = label_map(layout, index)
    try:
        return values_of(read_ids(file)) if file else frozenset()
    except Exception:  # noqa: BLE001  `Layout.read` reports it
        return frozenset()


def check_all(check: Check, *, n_processes: int, timeout_s: float) -> Iterator[Checked]:
    """Check every sample of the layout; yield the results as they come.

    timeout_s: maximum time for a sample in seconds; 0: no limit.
    """
    to_do = deque(range(len(check.layout)))
    workers = [_Worker(check) for _ in range(min(n_processes, len(to_do)))]
    try:
        while True:
            for worker in workers:
                worker.assign(to_do)
            busy = [worker.connection for worker in workers if worker.assigned]
            if not busy:
                return
            ready = multiprocessing.connection.wait(busy, timeout=POLL_S)
            for number, worker in enumerate(workers):
                if worker.connection in ready:
                    checked = worker.receive()
                elif worker.assigned and 0 < timeout_s < worker.waited_s():
                    checked = worker.abandon(f"takes more than {timeout_s:g} s; check that it can be read")
                else:
                    continue
                if checked.ends_process:
                    to_do.extendleft(reversed(worker.assigned))
                    workers[number] = _Worker(check)
                yield checked
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """A process that checks samples, and the queue of samples that it has not answered."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self.connection, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_work, args=(check, theirs, _ORPHAN_S), daemon=True)
        self._process.start()
        theirs.close()
        self.assigned: deque[int] = deque()
        self._since_s = time.monotonic()

    def assign(self, to_do: deque[int]) -> None:
        """Move samples from `to_do` to the queue of the process."""
        while to_do and len(self.assigned) < _AHEAD:
            self.assigned.append(to_do.popleft())
            with suppress(OSError):  # the process has ended, which `receive` will report
                self.connection.send(self.assigned[-1])

    def waited_s(self) -> float:
        """Return the seconds since the last answer."""
        return time.monotonic() - self._since_s

    def receive(self) -> Checked:
        """Return the next answer, or how the process ended before it."""
        index = self.assigned.popleft()
        self._since_s = time.monotonic()
        try:
            checked: Checked = self.connection.recv()
        except (EOFError, OSError):
            exit_code = self.end(grace_s=_GRACE_S)
            problem = describe_exit(exit_code, describe_sample(self._check.layout, index))
            return Checked(index, (problem,), ends_process=True)
        return checked

    def abandon(self, why: str) -> Checked:
        """End the process, which does not answer."""
        self.end()
        index = self.assigned.popleft()
        return Checked(index, (f"{describe_sample(self._check.layout, index)}: {why}",), ends_process=True)

    def end(self, grace_s: float = 0.0) -> int:
        """End the process, after up to `grace_s` seconds in which it may exit by itself; return its exit code."""
        self._process.join(timeout=grace_s)
        self._process.kill()
        self._process.join()
        self.connection.close()
        return self._process.exitcode or 0


def _work(check: Check, connection: Connection, orphan_s: float) -> None:
    parent = os.getppid()  # where the process was forked from a server, the server
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    torch.set_num_threads(1)
    while True:
        while not connection.poll(orphan_s):
            if os.getppid() != parent:
                return
        connection.send(check(connection.recv()))
