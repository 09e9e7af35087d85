"""Layout `paired_folders`: sources, targets and instance maps in a folder each, as pix2pixHD stores them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path, PurePath
from typing import ClassVar, Self

from data.batch import DataError, Sample
from data.files.image_files import find_images
from data.folder_store import local_folder
from data.layout import ClassTable, Origin, PairingError
from data.map_reader import RGB_IMAGES, MapReader
from data.stacked_sources import further_kinds
from data.store import Blob, Folder

FEATURE_FOLDER = "{split}_feat"  # of precomputed instance features

_Index = dict[str, Blob]  # files by name
_NO_INSTANCES = (
    "; to make them from label maps: data.instances=connected; to train without: data.instance_edges=false, with "
    "features also features.regions=labels"
)
_NO_WEIGHTS = "; to do without weights: data.weight_folder=null"


@dataclass(frozen=True)
class _Files:
    name: str
    source: Blob
    target: Blob | None
    instances: Blob | None
    features: Blob | None
    weights: Blob | None
    further: tuple[Blob, ...] = field(kw_only=True)

    def maps(self) -> dict[str, Blob]:
        """Return the files of the sample by kind of map."""
        maps = {
            "source": self.source,
            **dict(zip(further_kinds(1 + len(self.further)), self.further, strict=True)),
            "target": self.target,
            "instances": self.instances,
            "features": self.features,
            "weights": self.weights,
        }
        return {kind: file for kind, file in maps.items() if file}


class PairedFolders:
    """Samples whose maps lie in separate folders of a store under the same name. Paths are folders of this machine.

    source_folder: label maps or images, as `reader` reads them; a sample has the name of its source.
    further_folders: images that are stacked behind those of source_folder, in this order.
    target_folder: images; None where none exist.
    instance_folder: instance maps; None where they are not needed.
    feature_folder: maps of precomputed instance features, stored as RGB images; None where they are not needed.
    weight_folder: maps of the weights of the targets' pixels; None where all pixels weigh the same.
    reader: of the maps.

    Names may end in different words as long as all names of a folder end alike: Cityscapes' `x_gtFine_labelIds.png` and
    `x_leftImg8bit.png` are partners.

    Raises:
        PairingError: a folder is missing or empty, two of its files have the same name, or one has no partner.
    """

    own_classes: ClassVar[ClassTable | None] = None

    def __init__(
        self,
        *,
        source_folder: Folder | Path,
        target_folder: Folder | Path | None = None,
        instance_folder: Folder | Path | None = None,
        feature_folder: Folder | Path | None = None,
        weight_folder: Folder | Path | None = None,
        further_folders: Sequence[Folder | Path] = (),
        reader: MapReader = RGB_IMAGES,
    ) -> None:
        self.n_classes = reader.n_classes
        self._reader = reader
        source, *further = (local_folder(folder) for folder in (source_folder, *further_folders))
        others = (target_folder, instance_folder, feature_folder, weight_folder)
        partners = [local_folder(folder) if folder else None for folder in others]
        problems: list[str] = []
        self._files = _match(problems, source, *partners, further_folders=further)
        self._store = source.store
        self.names = [files.name for files in self._files]
        self.folders = [folder for folder in (source, *partners, *further) if folder]
        self.files = [file for files in self._files for file in files.maps().values()]
        if problems:
            raise PairingError(*problems, rest=self)

    @classmethod
    def open(
        cls,
        split: str,
        *,
        root: Folder,
        source_folder: str | Sequence[str] | None,
        target_folder: str | None,
        instance_folder: str,
        weight_folder: str | None,
        direction: str,
        reader: MapReader,
        needs_targets: bool,
        needs_instances: bool,
        needs_features: bool,
    ) -> Self:
        """Return a split of the data set, whose folders lie below ROOT. See RegisteredLayout."""
        first, *others = _patterns(source_folder)
        if lacking := next((pattern for pattern in (first, *others) if not _has_own_folder(split, pattern)), None):
            raise DataError(
                f"data.source_folder={lacking} has no {{split}}, so train is the only split, and there is no "
                f"{split}: name another folder with --input DIR, or choose --split train"
            )
        source, target = _source_and_target(root, split, first, target_folder, direction, reader.n_classes)
        reads_instances = needs_instances and reader.divided_classes is None
        weights = _of_split(root, weight_folder, split) if weight_folder else None
        has_weights = weights is not None and root.store.has(weights) and _has_own_folder(split, weight_folder)
        return cls(
            source_folder=source,
            further_folders=[_of_split(root, pattern, split) for pattern in others if pattern],
            target_folder=target if needs_targets or root.store.has(target) else None,
            instance_folder=_of_split(root, instance_folder, split) if reads_instances else None,
            feature_folder=_of_split(root, FEATURE_FOLDER, split) if needs_features else None,
            weight_folder=weights if needs_targets or has_weights else None,
            reader=reader,
        )

    @classmethod
    def has_split(
        cls,
        split: str,
        *,
        root: Folder,
        source_folder: str | Sequence[str] | None,
        target_folder: str | None,
        direction: str,
        n_classes: int,
    ) -> bool:
        """Return whether the data set has a folder of sources of a split. See RegisteredLayout."""
        first, *others = _patterns(source_folder)
        if not all(_has_own_folder(split, pattern) for pattern in (first, *others)):
            return False
        return root.store.has(_source_and_target(root, split, first, target_folder, direction, n_classes)[0])

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
        files = self._files[index].maps()
        fetched = self._store.fetched(list(files.values()))
        return self._reader.read(self._files[index].name, dict(zip(files, fetched, strict=True)))


def _patterns(source_folder: str | Sequence[str] | None) -> Sequence[str | None]:
    """Return the patterns of one or more source folders; None is the default of the first."""
    return [source_folder] if source_folder is None or isinstance(source_folder, str) else source_folder


def _has_own_folder(split: str, pattern: str | None) -> bool:
    """Return whether the maps of a split have their own folder; a folder named without {split} is that of train."""
    return split == "train" or pattern is None or "{split}" in pattern


def _source_and_target(
    root: Folder, split: str, source_folder: str | None, target_folder: str | None, direction: str, n_classes: int
) -> tuple[Folder, Folder]:
    """Return the folders of the sources and of the targets of a split."""
    default_source, default_target = ("{split}_label", "{split}_img") if n_classes else ("{split}_A", "{split}_B")
    source = _of_split(root, source_folder or default_source, split)
    target = _of_split(root, target_folder or default_target, split)
    return (source, target) if direction == "AtoB" else (target, source)


def _of_split(root: Folder, pattern: str, split: str) -> Folder:
    """Return the folder that a pattern such as `{split}_img` names below `root`."""
    return root / pattern.replace("{split}", split)


def _match(
    problems: list[str],
    source_folder: Folder,
    *partner_folders: Folder | None,
    further_folders: Sequence[Folder],
) -> list[_Files]:
    """Return the files of each complete sample, sorted by name; add each file without a partner to `problems`."""
    _, instance_folder, _, weight_folder = partner_folders
    if_missing = {instance_folder: _NO_INSTANCES, weight_folder: _NO_WEIGHTS}
    folders = [folder for folder in (source_folder, *partner_folders, *further_folders) if folder is not None]
    indices = [find_images(folder, problems, if_missing.get(folder, "")) for folder in folders]
    if not all(indices):
        return []  # find_images has named the folder; that all other files lack partners would only hide it
    shortened = [_without_common_ending(index) for index in indices]
    matching = min(indices, shortened, key=_count_unmatched)
    names = {file: name for name, file in indices[0].items()}
    by_folder = dict(zip(folders, matching, strict=True))
    in_lower_case = {folder: {key.lower(): file for key, file in index.items()} for folder, index in by_folder.items()}
    for index in by_folder.values():
        for key, file in sorted(index.items(), key=itemgetter(0)):
            lacking = [other for other in folders if key not in by_folder[other]]
            near = (in_lower_case[other].get(key.lower()) for other in lacking)
            similar = [PurePath(there.name).name for there in near if there]
            if lacking:
                hint = f"; {similar[0]} there differs in upper and lower case: rename one" if similar else ""
                problems.append(f"{file}: without a partner of the same name in {', '.join(map(str, lacking))}{hint}")
    return [
        _Files(
            names[source],
            source,
            *(by_folder[folder][key] if folder else None for folder in partner_folders),
            further=tuple(by_folder[folder][key] for folder in further_folders),
        )
        for key, source in sorted(matching[0].items(), key=itemgetter(0))
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
            return {name.removesuffix(ending): file for name, file in index.items()}
    return index
