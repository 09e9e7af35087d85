"""Checks of every sample of a layout, in separate processes: a decoder that crashes is reported with its file.

Of label maps the palettes are compared: an index is the same class in two files only if these agree.
"""

import multiprocessing
import multiprocessing.connection
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing.connection import Connection
from typing import Literal

import numpy as np
import torch

from data.checks.observation import Observation, observe, values_of
from data.files.image_files import read_ids, read_palette
from data.layout import Layout, describe_sample
from data.loader import as_data_error
from data.preprocessing import Preprocessing
from data.store import Blob, File
from data.value_range import ValueRange
from data.worker_monitor import POLL_S, describe_exit

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
    side: which of the two sides of a layout this one is, "source" or "target", in which names may be the same.
    """

    layout: Layout
    preprocessing: Preprocessing
    is_for_training: bool
    ranges: Mapping[str, ValueRange] = field(default_factory=dict)
    side: Literal["source", "target"] | None = None

    def __call__(self, index: int) -> Checked:
        """Check sample `index` by reading and placing it."""
        ids, file = frozenset[int](), label_map(self.layout, index)
        with suppress(Exception):  # `Layout.read` reports it; it refuses or replaces ids that are no class
            ids = values_of(read_ids(file)) if file else ids
        try:
            sample = self.layout.read(index)
            named = replace(sample, name=describe_sample(self.layout, index)) if self.side else sample  # for errors
            drawn = self.preprocessing.draw(named, np.random.default_rng(0)) if self.is_for_training else None
            placement = drawn or self.preprocessing.fixed(sample)
            observation = observe(self.layout, index, sample).of_side(self.side)
        except Exception as error:  # noqa: BLE001  a bug is reported with its sample
            return Checked(index, as_data_error(error, describe_sample(self.layout, index)).problems, ids=ids)
        maps = vars(sample) | ({"source": None, "target": sample.source} if self.side == "target" else {})
        images = {kind: maps[kind] for kind in self.ranges if maps[kind] is not None}
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


def check_all(check: Check, *, n_processes: int, timeout_s: float) -> Iterator[Checked]:
    """Check every sample of the layout; yield the results as they come.

    timeout_s: maximum time for a sample in seconds; 0: no limit.
    """
    to_do = iter(range(len(check.layout)))
    workers = [_Worker(check, index) for index in islice(to_do, n_processes)]
    try:
        while workers:
            ready = multiprocessing.connection.wait([worker.connection for worker in workers], timeout=POLL_S)
            for number, worker in reversed(list(enumerate(workers))):
                if worker.connection in ready:
                    checked = worker.receive()
                elif 0 < timeout_s < time.monotonic() - worker.since_s:
                    checked = worker.abandon(f"takes more than {timeout_s:g} s; check that it can be read")
                else:
                    continue
                if (following := next(to_do, None)) is None:
                    workers.pop(number).end()
                elif checked.ends_process:
                    workers[number] = _Worker(check, following)
                else:
                    worker.give(following)
                yield checked
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """A process that checks one sample after the other.

    since_s: time at which it got its present one.
    """

    def __init__(self, check: Check, index: int) -> None:
        self._check = check
        self.connection, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_work, args=(check, theirs, _ORPHAN_S), daemon=True)
        self._process.start()
        theirs.close()
        self.give(index)

    def give(self, index: int) -> None:
        """Let the process check sample `index`."""
        self._index, self.since_s = index, time.monotonic()
        with suppress(OSError):  # the process has ended, which `receive` will report
            self.connection.send(index)

    def receive(self) -> Checked:
        """Return the answer, or how the process ended before it."""
        try:
            checked: Checked = self.connection.recv()
        except (EOFError, OSError):
            exit_code = self.end(grace_s=_GRACE_S)
            problem = describe_exit(exit_code, describe_sample(self._check.layout, self._index))
            return Checked(self._index, (problem,), ends_process=True)
        return checked

    def abandon(self, why: str) -> Checked:
        """End the process, which does not answer."""
        self.end()
        problem = f"{describe_sample(self._check.layout, self._index)}: {why}"
        return Checked(self._index, (problem,), ends_process=True)

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


def label_map(layout: Layout, index: int) -> Blob | None:
    """Return the file of the label map of sample `index`; None where the source is an RGB image or drawn."""
    return layout.provenance(index).files.get("source") if layout.n_classes else None


def label_maps(layout: Layout, most: int | None = None) -> list[Blob]:
    """Return the files of label maps, up to `most` spread over the layout; none where sources are RGB images."""
    n_samples = len(layout)
    step = -(-n_samples // most) if most else 1
    files = (label_map(layout, index) for index in range(0, n_samples, step))
    return [file for file in files if file]


def palette_problems(files: Iterable[File]) -> list[str]:
    """Return a problem that names two files whose palettes differ; none where those of all files agree.

    Only the headers are read. A palette may have fewer colours than another, and black ones to fill it up.
    """
    longest, longest_file = b"", None
    for file in files:
        palette = read_palette(file)
        shorter, longer = sorted((palette, longest), key=len)
        if not longer.startswith(shorter):
            return [
                f"{file} and {longest_file} have different palettes, so that an id is another class in each: "
                "python -m tools.convert_data colors-to-ids makes ids of the colours; if the ids are right, save the "
                "maps without palettes, as 8-bit PNG"
            ]
        if len(palette) > len(longest):
            longest, longest_file = palette, file
    return []
