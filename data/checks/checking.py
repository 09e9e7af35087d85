"""Checks of every sample of a layout, in separate processes: a decoder that crashes is reported with its file.

Of label maps the palettes are compared: an index is the same class in two files only if these agree.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Literal

import numpy as np

from data.batch import LoadingError
from data.checks.observation import Observation, observe, values_of
from data.files.image_files import read_ids, read_palette
from data.layout import Layout, describe_sample
from data.loader import SampleKey, as_data_error
from data.preprocessing import Preprocessing
from data.store import Blob, File
from data.value_range import ValueRange
from data.worker_monitor import MonitoredDataset, WorkerMonitor


@dataclass(frozen=True)
class Checked:
    """The result of checking a sample.

    problems: empty where the sample can be used.
    height, width: size after preprocessing, in pixels; 0 where the sample cannot be used.
    ids: of the label map as stored, those that are no class included; empty where there is none.
    outside, types: of images that are not 8-bit RGB, by kind, the share of values outside their range and the type.
    observation: of a sample that can be used.
    """

    index: int
    problems: tuple[str, ...]
    height: int = 0
    width: int = 0
    ids: frozenset[int] = frozenset()
    outside: Mapping[str, float] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    observation: Observation | None = None


@dataclass
class Check(MonitoredDataset):
    """The check of each sample of a layout.

    is_for_training: preprocess as in training, otherwise as in validation and testing.
    ranges: of the values of images that are not 8-bit RGB, by kind: "source", "target".
    side: which of the two sides of a layout this one is, "source" or "target", in which names may be the same.
    """

    layout: Layout
    preprocessing: Preprocessing
    is_for_training: bool
    ranges: Mapping[str, ValueRange] = field(default_factory=dict)
    side: Literal["source", "target"] | None = None

    def __getitem__(self, key: SampleKey) -> Checked:
        self.record(0, key.index)
        checked = self(key.index)
        self.record()
        return checked

    def __call__(self, index: int) -> Checked:
        """Check sample `index` by reading and placing it."""
        ids, file = frozenset[int](), label_map(self.layout, index)
        with suppress(Exception):  # `Layout.read` reports it; it refuses or replaces ids that are no class
            ids = values_of(read_ids(file)) if file else ids
        try:
            sample = self.layout.read(index)
            named = replace(sample, name=describe_sample(self.layout, index))  # for errors
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
    to_do = dict.fromkeys(range(len(check.layout)))
    while to_do:
        for checked in _checked_until_one_is_lost(check, list(to_do), n_processes, timeout_s):
            del to_do[checked.index]
            yield checked


def _checked_until_one_is_lost(
    check: Check, indices: Sequence[int], n_processes: int, timeout_s: float
) -> Iterator[Checked]:
    """Check samples; the last one may be one that ended its process or took too long, as its problem says."""
    batches = [[SampleKey(epoch=0, index=index)] for index in indices]
    monitor = WorkerMonitor(check, batches, itemgetter(0), min(n_processes, len(indices)), timeout_s)
    try:
        with monitor:
            yield from monitor
    except LoadingError as error:
        yield Checked(monitor.lost, error.problems)


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
