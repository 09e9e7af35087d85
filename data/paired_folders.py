"""Pairs in two folders, and instance maps in a third: pix2pixHD's layout, or any two folders."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data.batch import DataError, Sample
from data.image_files import find_images, read_ids, read_rgb
from data.layout import check_equal_size, checked_classes, file_identity

_LISTED = 5


_Index = dict[str, Path]  # name -> file


@dataclass(frozen=True)
class _Files:
    name: str
    source: Path
    target: Path | None
    instances: Path | None
    features: Path | None


class PairedFolders:
    """Samples whose maps lie in separate folders under the same name.

    source_folder: label maps (n_classes > 0) or RGB images; a sample has the name of its source.
    target_folder: RGB images; None where none exist.
    instance_folder: instance maps; None to do without.
    feature_folder: maps of precomputed instance features, stored as RGB images; None to do without.

    Names may end in different words as long as all names of a folder end alike: Cityscapes' `x_gtFine_labelIds.png` and
    `x_leftImg8bit.png` are partners.
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
        self._ignore_id = ignore_id
        folders = (source_folder, target_folder, instance_folder, feature_folder)
        self._files = _match(*folders)
        self.names = [files.name for files in self._files]
        self.folders = [folder for folder in folders if folder]
        self.files = [
            path
            for files in self._files
            for path in (files.source, files.target, files.instances, files.features)
            if path
        ]

    def __len__(self) -> int:
        return len(self._files)

    def identity(self, index: int) -> str:
        """See Layout."""
        files = self._files[index]
        maps = {
            "source": files.source,
            "target": files.target,
            "instances": files.instances,
            "features": files.features,
        }
        present = {kind: path for kind, path in maps.items() if path}
        try:
            return f"{list(present)} {file_identity(list(present.values()))} {self.n_classes} {self._ignore_id}"
        except OSError as error:
            raise DataError(f"{error.filename}: {error.strerror}") from error

    def read(self, index: int) -> Sample:
        """The maps of sample `index` at full size; DataError where a file cannot be used."""
        files = self._files[index]
        if self.n_classes:
            ids = read_ids(files.source)
            source = checked_classes(ids, files.source, n_classes=self.n_classes, ignore_id=self._ignore_id)
        else:
            source = read_rgb(files.source)
        instances = target = features = None
        if files.instances is not None:
            instances = read_ids(files.instances)
            check_equal_size(source, files.source, instances, files.instances)
        if files.target is not None:
            target = read_rgb(files.target)
            check_equal_size(source, files.source, target, files.target)
        if files.features is not None:
            features = read_rgb(files.features)  # of any size: 512p features serve 1024p too
        return Sample(name=files.name, source=source, instances=instances, target=target, features=features)


def _match(source_folder: Path, *partner_folders: Path | None) -> list[_Files]:
    """The files of each sample, sorted by name; DataError lists what has no partner."""
    folders = [folder for folder in (source_folder, *partner_folders) if folder is not None]
    indices = [find_images(folder) for folder in folders]
    if not indices[0]:
        raise DataError(f"{source_folder}: holds no image")
    shortened = [_without_common_ending(index) for index in indices]
    matching = min(indices, shortened, key=_count_unmatched)
    if _count_unmatched(matching):
        raise DataError(f"files without a partner of the same name: {_list_unmatched(folders, matching)}")
    by_folder = dict(zip(folders, matching, strict=True))
    names = {path: name for name, path in indices[0].items()}
    return [
        _Files(names[source], source, *(by_folder[folder][key] if folder else None for folder in partner_folders))
        for key, source in sorted(matching[0].items())
    ]


def _unmatched(index: _Index, indices: Sequence[_Index]) -> set[str]:
    return {name for name in index if not all(name in other for other in indices)}


def _count_unmatched(indices: Sequence[_Index]) -> int:
    return sum(len(_unmatched(index, indices)) for index in indices)


def _list_unmatched(folders: Sequence[Path], indices: Sequence[_Index]) -> str:
    complaints = []
    for folder, index in zip(folders, indices, strict=True):
        alone = sorted(index[name].name for name in _unmatched(index, indices))
        if alone:
            more = f" and {len(alone) - _LISTED} more" if len(alone) > _LISTED else ""
            complaints.append(f"{len(alone)} in {folder}: {', '.join(alone[:_LISTED])}{more}")
    return "; ".join(complaints)


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
