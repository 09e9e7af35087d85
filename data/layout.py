"""The interface of layouts. A layout finds and reads the samples of one split of a data set."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from data.batch import DataError, Sample
from data.folder import Blob, Folder
from data.volume_cache import CachedVolume
from utils.label_colors import LabelColors

Volumes = Mapping[str, Mapping[str, CachedVolume]]
"""Volumes by the name of the patient, then by the map, such as "source"."""


@dataclass(frozen=True)
class Provenance:
    """The files and settings that determine a sample.

    rule: Names of the maps and all settings that change the sample. For a synthetic sample, its seed and number.
    files: File of each map, in the order of the rule. The key "pair" means a file that holds both images.
    """

    rule: str
    files: Mapping[str, Blob] = field(default_factory=dict)

    def key(self) -> str:
        """Return a digest that changes with the rule and the files; raise DataError if a file cannot be read."""
        texts = [self.rule]
        for file in self.files.values():
            try:
                texts.append(file.state())
            except OSError as error:
                raise DataError(f"{file}: {error.strerror}") from error
        text = " ".join(texts).encode("utf-8", "surrogateescape")  # file names can contain any bytes
        return hashlib.sha256(text).hexdigest()


class Layout(ABC):
    """One split of a data set.

    A layout of pairs reads source and target together. An unpaired layout has two `sides`, one for each domain. A side
    is a layout that reads its images as sources. A sample of an unpaired layout combines one image of each side.
    Indices below len(layout) combine the images in order. Higher indices stand for all other combinations. Callers
    cache, resize, split and skip the images of each side separately.
    """

    n_classes: int = 0
    """Number of classes of label maps; 0 if sources are images."""
    names: Sequence[str]
    """Names of the samples, by index."""
    folders: Sequence[Folder] = ()
    """Folders of the files; empty for synthetic data sets."""
    notes: Sequence[tuple[str, str]] = ()
    """Lines for the plan of a run, each with a heading."""
    patients: Volumes = MappingProxyType({})
    """The volumes of the whole split, if samples are slices of volumes."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def groups(self) -> Sequence[str]:
        """The group of each sample, such as the patient. A group stays in one split. Default: one group per sample."""
        return self.names

    @property
    def files(self) -> Iterator[Blob]:
        """The files of all samples, each once. Slices of a volume have the same file."""
        for side in self.sides:
            files = (file for index in range(len(side)) for file in side.provenance(index).files.values())
            yield from dict.fromkeys(files)

    @property
    def sides(self) -> Sequence["Layout"]:
        """The layouts that read images: only this layout, or a layout for sources and a layout for targets."""
        return (self,)

    def by_side(self, function: Callable[["Layout"], "Layout"]) -> "Layout":
        """Return this layout with `function` applied to each side."""
        return function(self)

    def places(self, index: int) -> Sequence[tuple["Layout", int]]:
        """Return where to read the images of sample `index`: a side and an index in this side for each image."""
        return ((self, index),)

    def joined(self, samples: Sequence[Sample]) -> Sample:
        """Join the samples of all sides to one sample."""
        return samples[0]

    def epoch_order(self, seed: int, epoch: int, n_used: int) -> np.ndarray:
        """Return the indices of an epoch's samples, (n_used,) int64. Pass the same `n_used` for every epoch."""
        return self.permutations(np.random.default_rng([seed, epoch]), 1)[:n_used]

    def permutations(self, random: np.random.Generator, number: int) -> np.ndarray:
        """Return `number` concatenated permutations of the indices, (number * len(self),) int64."""
        return random.permuted(np.tile(np.arange(len(self)), (number, 1)), axis=1).ravel()

    @abstractmethod
    def provenance(self, index: int) -> Provenance:
        """Return the files and settings that determine sample `index`."""

    @abstractmethod
    def read(self, index: int) -> Sample:
        """Read sample `index` at full size; raise a DataError that lists the problems of all its files."""


class DerivedLayout(Layout):
    """A layout that gets its samples from another layout."""

    def __init__(self, layout: Layout) -> None:
        self.n_classes, self.names, self.folders = layout.n_classes, layout.names, layout.folders
        self.notes, self.patients, self._layout = layout.notes, layout.patients, layout

    @property
    def groups(self) -> Sequence[str]:
        """See Layout."""
        return self._layout.groups


class RegisteredLayout(Layout):
    """A layout that the setting `data.layout` can select: an entry of `data.LAYOUTS`.

    `open` and `has_split` declare the settings of section `data` that they need, as keyword arguments with the same
    names. `root` is a Folder. These methods can also have the following arguments:

    seed: Value of `run.seed`.
    needs_targets: Whether samples must have targets. If False, targets are optional.
    needs_instances, needs_features, needs_labels: Whether samples must have these maps.
    reader: MapReader of the data set.
    target_scale: Height of a target divided by the height of its source. By default, both heights are equal.
    patterns, slice_rule: Folders of volumes by type of map, and how their slices become samples.
    """

    pairs: ClassVar[bool] = True
    """Whether samples are pairs. If not, images of two domains are joined at random."""
    drawn: ClassVar[bool] = False
    """Whether the data set is synthetic. A synthetic data set has no files and does not use `data.root`."""
    has_volumes: ClassVar[bool] = False
    """Whether samples are slices of volumes."""
    unsupported: ClassVar[Sequence[str]] = ()
    """Settings that must have their defaults, such as "data.n_classes"."""
    file_maps: ClassVar[frozenset[str]] = frozenset()
    """Maps that have their own files, such as "target". "pair" means a file that holds both images."""
    own_classes: ClassVar[LabelColors | None] = None
    """Classes that the layout itself defines. None if the user sets `data.n_classes`."""

    @classmethod
    @abstractmethod
    def open(cls, split: str, *args: Any, **settings: Any) -> Layout:
        """Return a split of the data set.

        Raises:
            DataError: The data set has no such split.
            PairingError: A folder is missing or empty, or a file has no partner.
        """

    @classmethod
    @abstractmethod
    def has_split(cls, split: str, *args: Any, **settings: Any) -> bool:
        """Return whether the data set has sources for a split."""


class PairingError(DataError):
    """Some samples of a split lack a file.

    rest: Layout of the complete samples.
    remedy: One remedy for all problems, or an empty text.
    """

    def __init__(self, *problems: str, rest: Layout, remedy: str = "") -> None:
        super().__init__(*problems)
        self.rest = rest
        self.remedy = remedy

    def __str__(self) -> str:
        return super().__str__() + (f": {self.remedy}" if self.remedy else "")


def describe_sample(layout: Layout, index: int) -> str:
    """Return the name and the folder of sample `index` for messages. If there are two sides, name both images."""
    return " and ".join(
        f"sample {side.names[place]}" + (f" of {side.folders[0]}" if side.folders else "")
        for side, place in layout.places(index)
    )
