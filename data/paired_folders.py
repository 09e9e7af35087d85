"""Pairs in two folders, and instance maps in a third: pix2pixHD's layout, or any two folders."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data.batch import Sample
from data.image_files import find_images
from data.layout import Origin, PairingError
from data.map_reader import MapReader

_Index = dict[str, Path]  # name -> file


@dataclass(frozen=True)
class _Files:
    name: str
    source: Path
    target: Path | None
    instances: Path | None
    features: Path | None

    def maps(self) -> dict[str, Path]:
        """The files that are there, by what they hold."""
        maps = {
            "source": self.source,
            "target": self.target,
            "instances": self.instances,
            "features": self.features,
        }
        return {kind: path for kind, path in maps.items() if path}


class PairedFolders:
    """Samples whose maps lie in separate folders under the same name.

    source_folder: label maps (n_classes > 0) or RGB images; a sample has the name of its source.
    target_folder: RGB images; None where none exist.
    instance_folder: instance maps; None to do without.
    feature_folder: maps of precomputed instance features, stored as RGB images; None to do without.

    Names may end in different words as long as all names of a folder end alike: Cityscapes' `x_gtFine_labelIds.png` and
    `x_leftImg8bit.png` are partners.

    Raises:
        PairingError: a folder is missing or empty, two of its files have the same name, or one has no partner.
    """

    def __init__(
        self,
        *,
        source_folder: Path,
        target_folder: Path | None,
        instance_folder: Path | None,
        feature_folder: Path | None = None,
        n_classes: int,
        ignore_id: int | None,
    ) -> None:
        self.n_classes = n_classes
        self._reader = MapReader(n_classes, ignore_id)
        folders = (source_folder, target_folder, instance_folder, feature_folder)
        problems: list[str] = []
        self._files = _match(problems, *folders)
        self.names = [files.name for files in self._files]
        self.folders = [folder for folder in folders if folder]
        self.files = [path for files in self._files for path in files.maps().values()]
        if problems:
            raise PairingError(*problems, rest=self)

    def __len__(self) -> int:
        return len(self._files)

    def origin(self, index: int) -> Origin:
        """See Layout."""
        return self._reader.origin(self._files[index].maps())

    def read(self, index: int) -> Sample:
        """The maps of sample `index` at full size; DataError tells all that stands against its files."""
        return self._reader.read(self._files[index].name, self._files[index].maps())


def _match(problems: list[str], source_folder: Path, *partner_folders: Path | None) -> list[_Files]:
    """The files of each whole sample, sorted by name; `problems` gets every file that lacks a partner."""
    folders = [folder for folder in (source_folder, *partner_folders) if folder is not None]
    indices = [find_images(folder, problems) for folder in folders]
    if not all(indices):
        return []  # told already; that all other files lack partners would only hide it
    shortened = [_without_common_ending(index) for index in indices]
    matching = min(indices, shortened, key=_count_unmatched)
    names = {path: name for name, path in indices[0].items()}
    by_folder = dict(zip(folders, matching, strict=True))
    for index in by_folder.values():
        for key, path in sorted(index.items()):
            lacking = [str(other) for other in folders if key not in by_folder[other]]
            if lacking:
                problems.append(f"{path}: without a partner of the same name in {', '.join(lacking)}")
    return [
        _Files(names[source], source, *(by_folder[folder][key] if folder else None for folder in partner_folders))
        for key, source in sorted(matching[0].items())
        if all(key in index for index in matching)
    ]


def _count_unmatched(indices: Sequence[_Index]) -> int:
    return sum(not all(name in other for other in indices) for index in indices for name in index)


def _without_common_ending(index: _Index) -> _Index:
    """The index by names less the longest ending of words, as `_gtFine_labelIds`, that several names share.

    A number is no such word: frames 1 and 2 stay different. Nor has a single name an ending.
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
