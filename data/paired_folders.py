"""Layout `paired_folders`: sources, targets and instance maps in a folder each, as pix2pixHD stores them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

from data.batch import DataError, Sample
from data.files.image_files import find_images
from data.files.stored_images import StoredForm
from data.layout import ClassTable, Origin, PairingError, data_set_folder
from data.map_reader import MapReader
from data.stacked_sources import further_kinds
from utils.label_colors import LabelColors

_Index = dict[str, Path]  # files by name
_NO_INSTANCES = (
    "; to make them from label maps: data.instances=connected; to train without: data.instance_edges=false, with "
    "features also features.regions=labels"
)
_NO_WEIGHTS = "; to do without weights: data.weight_folder=null"


@dataclass(frozen=True)
class _Files:
    name: str
    source: Path
    target: Path | None
    instances: Path | None
    features: Path | None
    weights: Path | None
    further: tuple[Path, ...] = field(kw_only=True)

    def maps(self) -> dict[str, Path]:
        """Return the files of the sample by kind of map."""
        maps = {
            "source": self.source,
            **dict(zip(further_kinds(1 + len(self.further)), self.further, strict=True)),
            "target": self.target,
            "instances": self.instances,
            "features": self.features,
            "weights": self.weights,
        }
        return {kind: path for kind, path in maps.items() if path}


class PairedFolders:
    """Samples whose maps lie in separate folders under the same name.

    source_folder: label maps (n_classes > 0) or images; a sample has the name of its source.
    further_folders: images that are stacked behind those of source_folder, in this order.
    target_folder: images; None where none exist.
    instance_folder: instance maps; None where they are not needed.
    feature_folder: maps of precomputed instance features, stored as RGB images; None where they are not needed.
    weight_folder: maps of the weights of the targets' pixels; None where all pixels weigh the same.
    forms: as for MapReader.
    label_colors, divided_classes, target_scale: as `colors`, `divided_classes` and `target_scale` of MapReader.

    Names may end in different words as long as all names of a folder end alike: Cityscapes' `x_gtFine_labelIds.png` and
    `x_leftImg8bit.png` are partners.

    Raises:
        PairingError: a folder is missing or empty, two of its files have the same name, or one has no partner.
    """

    own_classes: ClassVar[ClassTable | None] = None

    def __init__(
        self,
        *,
        source_folder: Path,
        target_folder: Path | None,
        instance_folder: Path | None,
        feature_folder: Path | None = None,
        weight_folder: Path | None = None,
        further_folders: Sequence[Path] = (),
        n_classes: int,
        ignore_id: int | None,
        forms: Mapping[str, StoredForm] | None = None,
        label_colors: LabelColors | None = None,
        divided_classes: frozenset[int] | None = None,
        target_scale: float = 1.0,
    ) -> None:
        self.n_classes = n_classes
        self._reader = MapReader(n_classes, ignore_id, forms or {}, label_colors, divided_classes, target_scale)
        folders = (source_folder, target_folder, instance_folder, feature_folder, weight_folder)
        problems: list[str] = []
        self._files = _match(
            problems,
            *folders,
            further_folders=further_folders,
            if_missing={instance_folder: _NO_INSTANCES, weight_folder: _NO_WEIGHTS},
        )
        self.names = [files.name for files in self._files]
        self.folders = [folder for folder in (*folders, *further_folders) if folder]
        self.files = [path for files in self._files for path in files.maps().values()]
        if problems:
            raise PairingError(*problems, rest=self)

    @classmethod
    def open(
        cls,
        split: str,
        *,
        root: str,
        source_folder: str | Sequence[str] | None,
        target_folder: str | None,
        instance_folder: str,
        feature_folder: str,
        weight_folder: str | None,
        direction: str,
        n_classes: int,
        ignore_id: int | None,
        label_colors: LabelColors | None,
        divided_classes: frozenset[int] | None,
        needs_targets: bool,
        needs_instances: bool,
        needs_features: bool,
        forms: Mapping[str, StoredForm],
        target_scale: float,
    ) -> Self:
        """Return a split of the data set, whose folders lie below ROOT. See RegisteredLayout."""
        first, *others = _patterns(source_folder)
        if lacking := next((pattern for pattern in (first, *others) if not _has_own_folder(split, pattern)), None):
            raise DataError(
                f"data.source_folder={lacking} has no {{split}}, so train is the only split, and there is no "
                f"{split}: name another folder with --input DIR, or choose --split train"
            )
        folder = data_set_folder(root)
        source, target = _source_and_target(folder, split, first, target_folder, direction, n_classes)
        reads_instances = needs_instances and divided_classes is None
        weights = _of_split(folder, weight_folder, split) if weight_folder else None
        has_weights = weights is not None and weights.is_dir() and _has_own_folder(split, weight_folder)
        return cls(
            source_folder=source,
            further_folders=[_of_split(folder, pattern, split) for pattern in others if pattern],
            target_folder=target if needs_targets or target.is_dir() else None,
            instance_folder=_of_split(folder, instance_folder, split) if reads_instances else None,
            feature_folder=_of_split(folder, feature_folder, split) if needs_features else None,
            weight_folder=weights if needs_targets or has_weights else None,
            n_classes=n_classes,
            ignore_id=ignore_id,
            forms=forms,
            label_colors=label_colors,
            divided_classes=divided_classes,
            target_scale=target_scale,
        )

    @classmethod
    def has_split(
        cls,
        split: str,
        *,
        root: str,
        source_folder: str | Sequence[str] | None,
        target_folder: str | None,
        direction: str,
        n_classes: int,
    ) -> bool:
        """Return whether the data set has a folder of sources of a split. See RegisteredLayout."""
        first, *others = _patterns(source_folder)
        if not all(_has_own_folder(split, pattern) for pattern in (first, *others)):
            return False
        folder = data_set_folder(root)
        return _source_and_target(folder, split, first, target_folder, direction, n_classes)[0].is_dir()

    def __len__(self) -> int:
        return len(self._files)

    def origin(self, index: int) -> Origin:
        """Return what the content of sample `index` depends on."""
        return self._reader.origin(self._files[index].maps())

    def read(self, index: int) -> Sample:
        """Read the maps of sample `index` at full size.

        Raises:
            DataError: lists the problems of all its files.
        """
        return self._reader.read(self._files[index].name, self._files[index].maps())


def _patterns(source_folder: str | Sequence[str] | None) -> Sequence[str | None]:
    """Return the patterns of one or more source folders; None is the default of the first."""
    return [source_folder] if source_folder is None or isinstance(source_folder, str) else source_folder


def _has_own_folder(split: str, pattern: str | None) -> bool:
    """Return whether the maps of a split have their own folder; a folder named without {split} is that of train."""
    return split == "train" or pattern is None or "{split}" in pattern


def _source_and_target(
    root: Path, split: str, source_folder: str | None, target_folder: str | None, direction: str, n_classes: int
) -> tuple[Path, Path]:
    """Return the folders of the sources and of the targets of a split."""
    default_source, default_target = ("{split}_label", "{split}_img") if n_classes else ("{split}_A", "{split}_B")
    source = _of_split(root, source_folder or default_source, split)
    target = _of_split(root, target_folder or default_target, split)
    return (source, target) if direction == "AtoB" else (target, source)


def _of_split(root: Path, pattern: str, split: str) -> Path:
    """Return the folder that a pattern such as `{split}_img` names below `root`."""
    return root / pattern.replace("{split}", split)


def _match(
    problems: list[str],
    source_folder: Path,
    *partner_folders: Path | None,
    further_folders: Sequence[Path],
    if_missing: Mapping[Path | None, str],
) -> list[_Files]:
    """Return the files of each complete sample, sorted by name; add each file without a partner to `problems`.

    if_missing: remedies for folders that are missing.
    """
    folders = [folder for folder in (source_folder, *partner_folders, *further_folders) if folder is not None]
    indices = [find_images(folder, problems, if_missing.get(folder, "")) for folder in folders]
    if not all(indices):
        return []  # find_images has named the folder; that all other files lack partners would only hide it
    shortened = [_without_common_ending(index) for index in indices]
    matching = min(indices, shortened, key=_count_unmatched)
    names = {path: name for name, path in indices[0].items()}
    by_folder = dict(zip(folders, matching, strict=True))
    in_lower_case = {folder: {key.lower(): path for key, path in index.items()} for folder, index in by_folder.items()}
    for index in by_folder.values():
        for key, path in sorted(index.items()):
            lacking = [other for other in folders if key not in by_folder[other]]
            near = (in_lower_case[other].get(key.lower()) for other in lacking)
            similar = [path_there.name for path_there in near if path_there]
            if lacking:
                hint = f"; {similar[0]} there differs in upper and lower case: rename one" if similar else ""
                problems.append(f"{path}: without a partner of the same name in {', '.join(map(str, lacking))}{hint}")
    return [
        _Files(
            names[source],
            source,
            *(by_folder[folder][key] if folder else None for folder in partner_folders),
            further=tuple(by_folder[folder][key] for folder in further_folders),
        )
        for key, source in sorted(matching[0].items())
        if all(key in index for index in matching)
    ]


def _count_unmatched(indices: Sequence[_Index]) -> int:
    return sum(not all(name in other for other in indices) for index in indices for name in index)


def _without_common_ending(index: _Index) -> _Index:
    """Return the index by names without the longest ending of words, as `_gtFine_labelIds`, that all of them share.

    A number is not a word: frames 1 and 2 stay different. A single name has no ending.
    """
    if len(index) < 2:
        return index
    first = next(iter(index))
    for start in re.finditer(r"[_.-]", first):  # the longest ending first
        ending = first[start.start() :]
        is_words = all(re.search(r"[A-Za-z]", word) for word in re.split(r"[_.-]", ending)[1:])
        if is_words and all(name.endswith(ending) for name in index):
            return {name.removesuffix(ending): path for name, path in index.items()}
    return index
