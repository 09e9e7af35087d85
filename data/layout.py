"""The interface of every layout, and the types and checks that layouts share."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from data.batch import DataError, Sample
from data.folder import Blob, Folder
from utils.label_colors import LabelColors


@dataclass(frozen=True)
class Provenance:
    """All that the content of a sample depends on.

    rule: Content of each file and all settings that matter; for a drawn sample, the numbers that determine it.
    files: File of each map, in the order of the rule; "pair" is a file with both images.
    """

    rule: str
    files: Mapping[str, Blob] = field(default_factory=dict)

    def key(self) -> str:
        """Return a digest that changes with the rule and with the files; raise DataError if one cannot be read."""
        texts = [self.rule]
        for file in self.files.values():
            try:
                texts.append(file.state())
            except OSError as error:
                raise DataError(f"{file}: {error.strerror}") from error
        return hashlib.sha256(
            " ".join(texts).encode("utf-8", "surrogateescape")
        ).hexdigest()  # file names may hold any bytes


class Layout(ABC):
    """One split of a data set.

    Samples are pairs unless the layout has two `sides` (domains). Each side is a layout that has only sources, and a
    sample joins an image of each side. Indices below the length go through both sides in order, higher ones through all
    other combinations. Reading, placing, caching, splitting and skipping are done for each side.
    """

    n_classes: int = 0
    """Number of classes; 0 if the source is an image."""
    names: Sequence[str]
    """Names of the samples, by index."""
    folders: Sequence[Folder] = ()
    """Folders that are read; none for drawn samples."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def files(self) -> Iterator[Blob]:
        """Files that are read, below the folders."""
        for side in self.sides:
            yield from (file for index in range(len(side)) for file in side.provenance(index).files.values())

    @property
    def sides(self) -> Sequence["Layout"]:
        """The layouts that read images: this one, or one for the sources and one for the targets."""
        return (self,)

    def by_side(self, function: Callable[["Layout"], "Layout"]) -> "Layout":
        """Return this layout with `function` applied to each side."""
        return function(self)

    def places(self, index: int) -> Sequence[tuple["Layout", int]]:
        """Return the sides, each with the index of the sample's image in it."""
        return ((self, index),)

    def joined(self, samples: Sequence[Sample]) -> Sample:
        """Return a sample that consists of a sample of each side."""
        return samples[0]

    def epoch_order(self, seed: int, epoch: int, n_used: int) -> np.ndarray:
        """Return the indices of the samples that an epoch uses, (n_used,) int64; n_used is the same in each epoch."""
        return self.permutations(np.random.default_rng([seed, epoch]), 1)[:n_used]

    def permutations(self, random: np.random.Generator, number: int) -> np.ndarray:
        """Return concatenated permutations of the indices, (number * len(self),) int64."""
        return random.permuted(np.tile(np.arange(len(self)), (number, 1)), axis=1).ravel()

    @abstractmethod
    def provenance(self, index: int) -> Provenance:
        """Return what the content of sample `index` depends on."""

    @abstractmethod
    def read(self, index: int) -> Sample:
        """Read sample `index` at full size; raise DataError with the problems of all its files."""


class DerivedLayout(Layout):
    """A layout that takes its samples from another layout."""

    def __init__(self, layout: Layout) -> None:
        self.n_classes, self.names, self.folders = layout.n_classes, layout.names, layout.folders
        self._layout = layout


class RegisteredLayout(Layout):
    """A layout that `data.layout` can name: an entry of `data.LAYOUTS`.

    `open` and `has_split` take the settings of section `data` that the layout reads as keyword arguments. `root` is a
    Folder. They may also take:

    seed: `run.seed`.
    needs_targets: If False, targets are read if they exist.
    needs_instances, needs_features, needs_labels: Whether samples must have these maps.
    reader: MapReader of the data set.
    target_scale: Height of a target divided by the height of its source. Layouts without it have pairs of one size.
    """

    pairs: ClassVar[bool] = True
    """Whether samples are pairs. If not, images of two domains are joined at random."""
    drawn: ClassVar[bool] = False
    """Whether samples are drawn, without files and `data.root`."""
    file_maps: ClassVar[frozenset[str]] = frozenset()
    """Maps that have their own files, such as "target"; "pair" is a file with both images."""
    own_classes: ClassVar[LabelColors | None] = None
    """The classes that the data set defines, by id. None if `data.n_classes` says how many there are."""

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
        """Return whether the data set has sources of a split."""


class PairingError(DataError):
    """Some samples of a split lack a file.

    rest: Layout of the complete samples.
    remedy: Remedy for all problems together, or an empty text.
    """

    def __init__(self, *problems: str, rest: Layout, remedy: str = "") -> None:
        super().__init__(*problems)
        self.rest = rest
        self.remedy = remedy

    def __str__(self) -> str:
        return super().__str__() + (f": {self.remedy}" if self.remedy else "")


def describe_sample(layout: Layout, index: int) -> str:
    """Return the name of sample `index` and its folder, for each side, for messages."""
    return " and ".join(
        f"sample {side.names[place]}" + (f" of {side.folders[0]}" if side.folders else "")
        for side, place in layout.places(index)
    )
