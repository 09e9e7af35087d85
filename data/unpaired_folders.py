"""Layout `unpaired_folders`: images of two domains without pairs, with a folder for each domain."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from data.batch import DataError, Sample
from data.folder import Folder
from data.layout import Layout, PairingError, Provenance, RegisteredLayout
from data.map_reader import MapReader, source_kinds
from data.paired_folders import FolderNames, PairedFolders, check_own_folders, folder_patterns, has_own_folder

_DEFAULTS = {"data.source_folder": "A", "data.target_folder": "B"}  # endings of the default folder names
_SAME = "is the folder of both domains. Set data.source_folder and data.target_folder to two folders."
_NO_REALS = "; validation needs both domains: add images, or set data.validation_split to a split of both domains"
_ORDER_SEED = (0, 0, 1)  # seed for the order of the shorter side; no sample uses this seed


class UnpairedLayout(RegisteredLayout):
    """A base class of layouts with two domains (sides), whose images are not pairs.

    An epoch uses each image of the longer side (the side with more images) once.
    If the longer side has L images and the shorter side n images, sample i + L * d joins image i of the longer side
    with image (i + d) % n of the shorter side. The sample has the name of its image from the longer side.

    source, target: A layout for each domain. `target` reads its images as sources, and `joined` makes them targets.
    """

    pairs = False

    def __init__(self, source: Layout, target: Layout) -> None:
        self.n_classes = source.n_classes
        self._sides = (source, target)
        self._longer = max((0, 1), key=lambda side: len(self._sides[side]))
        self._n_shorter = len(self._sides[1 - self._longer])
        self.names = self._sides[self._longer].names if self._n_shorter else ()
        self.folders = [*source.folders, *target.folders]

    @property
    def sides(self) -> Sequence[Layout]:
        """See Layout."""
        return self._sides

    def by_side(self, function: Callable[[Layout], Layout]) -> Layout:
        """See Layout."""
        return type(self)(*map(function, self._sides))

    def places(self, index: int) -> Sequence[tuple[Layout, int]]:
        """See Layout."""
        shift, of_longer = divmod(index, len(self))
        of_shorter = (of_longer + shift) % self._n_shorter
        indices = (of_shorter, of_longer) if self._longer else (of_longer, of_shorter)
        return tuple(zip(self._sides, indices, strict=True))

    def joined(self, samples: Sequence[Sample]) -> Sample:
        """See Layout."""
        source, target = samples
        return replace(source, name=samples[self._longer].name, target=target.source)

    def epoch_order(self, seed: int, epoch: int, n_used: int) -> np.ndarray:
        """See Layout. Each epoch draws a new permutation of the longer side.

        The shorter side gets a new permutation whenever all its images were used. This can happen within an epoch.
        Permutations for about one epoch are drawn at once.
        """
        longer = self._sides[self._longer].epoch_order(seed, epoch, n_used)
        n_cycles = -(-len(self) // self._n_shorter)
        n_drawn = n_cycles * self._n_shorter
        positions = np.arange(epoch * n_used, (epoch + 1) * n_used)
        first, last = positions[0] // n_drawn, positions[-1] // n_drawn
        draws = (np.random.default_rng([seed, number, *_ORDER_SEED]) for number in range(first, last + 1))
        shorter = np.concatenate([self._sides[1 - self._longer].permutations(draw, n_cycles) for draw in draws])
        shorter = shorter[positions - first * n_drawn]
        return longer + len(self) * ((shorter - longer) % self._n_shorter)

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        source, target = (side.provenance(place) for side, place in self.places(index))
        targets = {kind.replace("source", "target"): file for kind, file in target.files.items()}
        return Provenance(f"unpaired {source.rule} {target.rule}", {**source.files, **targets})

    def read(self, index: int) -> Sample:
        """See Layout."""
        return self.joined([side.read(place) for side, place in self.places(index)])


class UnpairedFolders(UnpairedLayout):
    """A layout with two domains, each with a folder of images."""

    file_maps = frozenset({"source", "target", "labels"})

    @classmethod
    def open(
        cls,
        split: str,
        *,
        root: Folder,
        source_folder: FolderNames,
        target_folder: str | None,
        direction: str,
        reader: MapReader,
        needs_targets: bool,
        needs_labels: bool = False,
    ) -> Layout:
        """Return a split of the data set, or only its sources if targets are not needed. See RegisteredLayout.

        The folder of label maps is named like the source folder, with _label added.
        """
        patterns = _patterns(source_folder, target_folder, direction)
        sides, problems = list[Layout](), list[str]()
        readers = readers_of_sides(reader)
        for (key, of_side), side_reader in list(zip(patterns, readers, strict=True))[: 1 + needs_targets]:
            check_own_folders(split, of_side, key)
            folders = dict(zip(source_kinds(len(of_side)), _folders(root, split, key, of_side), strict=True))
            first = folders["source"]
            if sides and first in sides[0].folders:
                raise DataError(f"{first}: {_SAME}")
            if needs_labels and not sides:
                folders["labels"] = replace(first, path=first.path.with_name(f"{first.path.name}_label"))
            try:
                sides.append(PairedFolders(folders, side_reader))
            except PairingError as error:
                sides.append(error.rest)
                is_lacking = len(sides) > 1 and split != "train" and not first.exists()
                problems += [f"{problem}{_NO_REALS if is_lacking else ''}" for problem in error.problems]
        layout = cls(*sides) if needs_targets else sides[0]
        if problems:
            raise PairingError(*problems, rest=layout)
        return layout

    @classmethod
    def has_split(
        cls, split: str, *, root: Folder, source_folder: FolderNames, target_folder: str | None, direction: str
    ) -> bool:
        """See RegisteredLayout."""
        (key, patterns), _ = _patterns(source_folder, target_folder, direction)
        is_own = all(has_own_folder(split, pattern) for pattern in patterns)
        return is_own and _folders(root, split, key, patterns)[0].exists()


def _patterns(
    source_folder: FolderNames, target_folder: str | None, direction: str
) -> list[tuple[str, Sequence[str | None]]]:
    """Return the name of the folder setting and its patterns, first for sources, then for targets."""
    patterns = [("data.source_folder", folder_patterns(source_folder)), ("data.target_folder", [target_folder])]
    return patterns if direction == "AtoB" else patterns[::-1]


def readers_of_sides(reader: MapReader) -> tuple[MapReader, MapReader]:
    """Return a reader for sources and a reader for targets, given the reader of the data set."""
    of_source = dict(reader.forms)
    of_target = {"source": of_source.pop("target")} if "target" in of_source else {}
    return replace(reader, forms=of_source), MapReader(forms=of_target)


def _folders(root: Folder, split: str, key: str, patterns: Sequence[str | None]) -> list[Folder]:
    """Return the folders of a domain. The default is, for example, train_A, or trainA if train_A is missing."""
    named = [root / pattern.replace("{split}", split) if pattern else None for pattern in patterns]
    usual = [root / f"{split}_{_DEFAULTS[key]}", root / f"{split}{_DEFAULTS[key]}"]
    present = [folder for folder in usual if folder.exists()] if None in named else []
    if len(present) > 1:
        raise DataError(f"{usual[0]} and {usual[1]}: two folders of one domain. Keep one of them, or set {key}.")
    return [folder or (present or usual)[0] for folder in named]
