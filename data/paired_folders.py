"""Layouts of pairs: sources and targets in separate folders (`paired_folders`) or in one file (`side_by_side`)."""

import re
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path, PurePath
from typing import Self, TypeVar

from torch import Tensor

from data.batch import DataError, Sample
from data.files.image_files import find_images, read_rgb
from data.folder import Blob, File, Folder, local_folder
from data.layout import PairingError, Provenance, RegisteredLayout
from data.map_reader import RGB_IMAGES, MapReader, is_later_source, source_kinds

FEATURE_FOLDER = "{split}_feat"  # precomputed instance features

FolderNames = str | Sequence[str] | None  # one or more source folders, or None for the default folder
_PARTNERS = ("target", "instances", "features", "weights", "labels")
B = TypeVar("B", bound=Blob)
IF_MISSING = {  # remedies if the folder of a map is missing
    "instances": "; to make them from label maps, set data.instances=connected; to train without them, set "
    "data.instance_edges=false, and if features use instances, set features.regions=labels",
    "weights": "; to train without weights, set data.weight_folder=null",
    "labels": "; to train without label maps, set loss.outside_mask=0",
    "mask": "; to train without masks, set data.mask_folder=null",
}
_UNMATCHED = "has no partner of the same name"
_NO_PAIRS = "for images that are not pairs set data.layout=unpaired_folders and method.name=contrastive or cycle"


class PairedFolders(RegisteredLayout):
    """A layout with one folder for each map, as in pix2pixHD. The files of a sample have the same name.

    If all names in a folder end in the same words, this ending is ignored. For example, `x_gtFine_labelIds.png` and
    `x_leftImg8bit.png` of Cityscapes are partners.

    folders: Folder of each map, or None. The maps are "source" (its file names are the sample names), "source_2" and so
        on, "target", "instances", "features" (precomputed, RGB images), "weights" (of target pixels), and "labels"
        (label maps in addition to source images).

    Raises:
        PairingError: A folder is missing or empty, two files have the same name, or a file has no partner.
    """

    file_maps = frozenset({"source", "target", "instances", "features", "weights"})

    def __init__(self, folders: Mapping[str, Folder | Path | None], reader: MapReader = RGB_IMAGES) -> None:
        self.n_classes = reader.n_classes
        self._reader = reader
        later = list(filter(is_later_source, folders))
        kinds = ("source", *_PARTNERS, *later)
        places = {kind: local_folder(folder) for kind in kinds if (folder := folders.get(kind))}
        problems: list[str] = []
        found = {kind: find_images(folder, problems, IF_MISSING.get(kind, "")) for kind, folder in places.items()}
        self.names, maps = match_names(found, places, problems)
        order = ("source", *later, *_PARTNERS)  # this order is part of `provenance`
        self._maps = {kind: maps[kind] for kind in order if kind in places}
        self.folders = list(places.values())
        if problems:
            may_be_unpaired = set(places) == {"source", "target"} and not reader.n_classes
            is_unmatched = any(_UNMATCHED in problem for problem in problems)
            raise PairingError(*problems, rest=self, remedy=_NO_PAIRS if may_be_unpaired and is_unmatched else "")

    @classmethod
    def open(
        cls,
        split: str,
        *,
        root: Folder,
        source_folder: FolderNames,
        target_folder: str | None,
        instances: str | list[str],
        weight_folder: str | None,
        direction: str,
        reader: MapReader,
        needs_targets: bool,
        needs_instances: bool,
        needs_features: bool,
    ) -> Self:
        """Return a split of the data set. See RegisteredLayout."""
        first, *others = patterns = folder_patterns(source_folder)
        check_own_folders(split, patterns, "data.source_folder")
        source, target = _source_and_target(root, split, first, target_folder, direction, reader.n_classes)
        sources = [source, *(_of_split(root, pattern, split) for pattern in others if pattern)]
        reads_instances = needs_instances and reader.divided_classes is None
        weights = _of_split(root, weight_folder, split) if weight_folder else None
        has_weights = weights is not None and weights.exists() and has_own_folder(split, weight_folder)
        partners = {
            "target": target if needs_targets or target.exists() else None,
            "instances": _of_split(root, str(instances), split) if reads_instances else None,
            "features": _of_split(root, FEATURE_FOLDER, split) if needs_features else None,
            "weights": weights if needs_targets or has_weights else None,
        }
        return cls({**dict(zip(source_kinds(len(sources)), sources, strict=True)), **partners}, reader)

    @classmethod
    def has_split(
        cls,
        split: str,
        *,
        root: Folder,
        source_folder: FolderNames,
        target_folder: str | None,
        direction: str,
        n_classes: int,
    ) -> bool:
        """See RegisteredLayout."""
        patterns = folder_patterns(source_folder)
        source, _ = _source_and_target(root, split, patterns[0], target_folder, direction, n_classes)
        return all(has_own_folder(split, pattern) for pattern in patterns) and source.exists()

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        return self._reader.provenance({kind: files[index] for kind, files in self._maps.items()})

    def read(self, index: int) -> Sample:
        """See Layout."""
        return self._reader.read(self.names[index], {kind: files[index] for kind, files in self._maps.items()})


def folder_patterns(source_folder: FolderNames) -> Sequence[str | None]:
    """Return the patterns of the source folders as a list. None stands for the default folder."""
    return [source_folder] if source_folder is None or isinstance(source_folder, str) else source_folder


def check_own_folders(split: str, patterns: Sequence[str | None], key: str) -> None:
    """Raise DataError if a pattern names no folder for a split. key: Name of the setting with the patterns."""
    if lacking := next((pattern for pattern in patterns if not has_own_folder(split, pattern)), None):
        raise DataError(
            f"{key}={lacking} does not contain {{split}}, so it is used only for the split train, not for {split}: "
            "name another folder with --input DIR, or choose --split train"
        )


def has_own_folder(split: str, pattern: str | None) -> bool:
    """Return whether a pattern names a folder for a split. A pattern without {split} names a folder only for train."""
    return split == "train" or pattern is None or "{split}" in pattern


def _source_and_target(
    root: Folder, split: str, source_folder: str | None, target_folder: str | None, direction: str, n_classes: int
) -> tuple[Folder, Folder]:
    default_source, default_target = ("{split}_label", "{split}_img") if n_classes else ("{split}_A", "{split}_B")
    source = _of_split(root, source_folder or default_source, split)
    target = _of_split(root, target_folder or default_target, split)
    return (source, target) if direction == "AtoB" else (target, source)


def _of_split(root: Folder, pattern: str, split: str) -> Folder:
    return root / pattern.replace("{split}", split)


def match_names(
    indices: Mapping[str, Mapping[str, B]], folders: Mapping[str, Folder], problems: list[str]
) -> tuple[list[str], dict[str, list[B]]]:
    """Return the names of the complete samples, and their files by map. Add a message for each file without a partner.

    indices: Files by map and name, sources first.
    folders: Folder of each map, for messages.
    """
    if not all(indices.values()):  # one folder is empty, which is already reported
        return [], {kind: [] for kind in folders}
    shortened = {kind: _without_common_ending(index) for kind, index in indices.items()}
    matching = min(indices, shortened, key=_count_unmatched)
    in_lower_case = {kind: {key.lower(): file for key, file in index.items()} for kind, index in matching.items()}
    for index in matching.values():
        for key, file in sorted(index.items(), key=itemgetter(0)):
            lacking = [kind for kind, other in matching.items() if key not in other]
            near = (in_lower_case[kind].get(key.lower()) for kind in lacking)
            similar = [PurePath(there.name).name for there in near if there]
            if lacking:
                hint = f"; {similar[0]} differs only in upper and lower case: rename one file" if similar else ""
                where = ", ".join(str(folders[kind]) for kind in lacking)
                problems.append(f"{file}: {_UNMATCHED} in {where}{hint}")
    names = dict(zip(matching["source"], indices["source"], strict=True))
    complete = [key for key in sorted(names) if all(key in index for index in matching.values())]
    return [names[key] for key in complete], {k: [index[key] for key in complete] for k, index in matching.items()}


def _count_unmatched(indices: Mapping[str, Mapping[str, Blob]]) -> int:
    return sum(not all(name in other for other in indices.values()) for index in indices.values() for name in index)


def _without_common_ending(index: Mapping[str, B]) -> Mapping[str, B]:
    """Remove the longest ending that all names have in common, such as _leftImg8bit. Only whole words are removed.

    A number is not a word, so numbered frames keep different names. The exception is 0000, which marks the first
    channel in nnU-Net's file names. A single name is not shortened.
    """
    if len(index) < 2:
        return index
    first = next(iter(index))
    for start in re.finditer(r"[_.-]", first):  # the longest ending first
        ending = first[start.start() :]
        is_words = all(re.search(r"[A-Za-z]|^0000$", word) for word in re.split(r"[_.-]", ending)[1:])
        if is_words and all(name.endswith(ending) for name in index):
            return {name.removesuffix(ending): file for name, file in index.items()}
    return index


class SideBySide(RegisteredLayout):
    """A layout of RGB pairs. Each image file holds A in its left half and B in its right half, as in pix2pix.

    a_to_b: Whether A is the source.

    Raises:
        PairingError: The folder is missing or empty, or two files have the same name.
    """

    file_maps = frozenset({"pair"})
    unsupported = ("data.n_classes", "data.label_colors", "data.instance_edges", "generator.scale")

    def __init__(self, *, folder: Folder | Path, a_to_b: bool) -> None:
        self._a_to_b = a_to_b
        problems: list[str] = []
        self.folders = [local_folder(folder)]
        self._images = find_images(self.folders[0], problems)
        self.names = sorted(self._images)
        if problems:
            raise PairingError(*problems, rest=self)

    @classmethod
    def open(cls, split: str, *, root: Folder, direction: str) -> Self:
        """Return the pairs in ROOT/SPLIT. See RegisteredLayout."""
        return cls(folder=root / split, a_to_b=direction == "AtoB")

    @classmethod
    def has_split(cls, split: str, *, root: Folder) -> bool:
        """See RegisteredLayout."""
        return (root / split).exists()

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        return Provenance(f"halves {self._a_to_b}", {"pair": self._images[self.names[index]]})

    def read(self, index: int) -> Sample:
        """See Layout. Raise DataError also if the width of the image is odd."""
        image = self._images[self.names[index]]
        source, target = halves(read_rgb(image), image, a_is_first=self._a_to_b)
        return Sample(name=self.names[index], source=source, target=target)


def halves(picture: Tensor, file: File, *, a_is_first: bool) -> tuple[Tensor, Tensor]:
    """Return the left half A and the right half B, or B and A if not `a_is_first`; raise DataError for odd widths."""
    width = picture.shape[-1]
    if width % 2:
        raise DataError(f"{file}: is {width} pixels wide, expected two halves of equal width")
    a, b = picture.split(width // 2, dim=-1)
    return (a, b) if a_is_first else (b, a)
