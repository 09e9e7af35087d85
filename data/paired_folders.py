"""Pairs in two folders, and instance maps in a third: pix2pixHD's layout, or any two folders."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data.batch import DataError, Sample
from data.image_files import find_images, read_ids, read_rgb
from data.layout import check_equal_size, checked_classes

_LISTED = 5


@dataclass(frozen=True)
class _Files:
    name: str
    source: Path
    target: Path | None
    instances: Path | None


class PairedFolders:
    """Samples whose maps lie in separate folders under the same name.

    source_folder: label maps (n_classes > 0) or RGB images; a sample has the name of its source.
    target_folder: RGB images; None where none exist.
    instance_folder: instance maps; None to do without.

    Names may end differently as long as all names of a folder end alike from a `_`, `-` or `.` on: Cityscapes'
    `x_gtFine_labelIds.png` and `x_leftImg8bit.png` are partners.
    """

    def __init__(
        self,
        *,
        source_folder: Path,
        target_folder: Path | None,
        instance_folder: Path | None,
        n_classes: int,
        ignore_id: int | None,
    ) -> None:
        self.n_classes = n_classes
        self._ignore_id = ignore_id
        self._files = _match(source_folder, target_folder, instance_folder)

    def __len__(self) -> int:
        return len(self._files)

    def read(self, index: int) -> Sample:
        """The maps of sample `index` at full size; DataError where a file cannot be used."""
        files = self._files[index]
        if self.n_classes:
            ids = read_ids(files.source)
            source = checked_classes(ids, files.source, n_classes=self.n_classes, ignore_id=self._ignore_id)
        else:
            source = read_rgb(files.source)
        instances = target = None
        if files.instances is not None:
            instances = read_ids(files.instances)
            check_equal_size(source, files.source, instances, files.instances)
        if files.target is not None:
            target = read_rgb(files.target)
            check_equal_size(source, files.source, target, files.target)
        return Sample(name=files.name, source=source, instances=instances, target=target)


def _match(source_folder: Path, target_folder: Path | None, instance_folder: Path | None) -> list[_Files]:
    """The files of each sample, sorted by name; DataError lists what has no partner."""
    folders = [folder for folder in (source_folder, target_folder, instance_folder) if folder is not None]
    indices = [find_images(folder) for folder in folders]
    if not indices[0]:
        raise DataError(f"{source_folder}: holds no image")
    matching = indices
    if not _have_equal_names(indices):
        matching = [_without_common_ending(index) for index in indices]
    if not _have_equal_names(matching):
        raise DataError(f"files without a partner of the same name: {_list_unmatched(folders, indices)}")
    by_folder = dict(zip(folders, matching, strict=True))
    names = {path: name for name, path in indices[0].items()}
    return [
        _Files(
            name=names[source],
            source=source,
            target=by_folder[target_folder][key] if target_folder else None,
            instances=by_folder[instance_folder][key] if instance_folder else None,
        )
        for key, source in sorted(matching[0].items())
    ]


def _list_unmatched(folders: Sequence[Path], indices: Sequence[dict[str, Path]]) -> str:
    everywhere = set.intersection(*(set(index) for index in indices))
    complaints = []
    for folder, index in zip(folders, indices, strict=True):
        alone = sorted(set(index) - everywhere)
        if alone:
            more = f" and {len(alone) - _LISTED} more" if len(alone) > _LISTED else ""
            complaints.append(f"{len(alone)} in {folder}: {', '.join(alone[:_LISTED])}{more}")
    return "; ".join(complaints)


def _have_equal_names(indices: Sequence[dict[str, Path]]) -> bool:
    return all(set(index) == set(indices[0]) for index in indices)


def _without_common_ending(index: dict[str, Path]) -> dict[str, Path]:
    endings = [name[start.start() :] for name in list(index)[:1] for start in re.finditer(r"[_.-]", name)]
    for ending in endings:  # the longest first
        if all(name.endswith(ending) for name in index):
            return {name.removesuffix(ending): path for name, path in index.items()}
    return index
