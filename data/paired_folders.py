"""Pairs in two folders, and instance maps in a third: pix2pixHD's layout, or any two folders."""

import re
from collections.abc import Sequence
from pathlib import Path

from data.batch import DataError, Sample
from data.image_files import find_images, read_ids, read_rgb
from data.layout import check_equal_size, checked_classes

_LISTED = 5


class PairedFolders:
    """Samples whose maps lie in separate folders under the same name.

    source_folder: label maps (n_classes > 0) or RGB images.
    target_folder: RGB images; None where none exist.
    instance_folder: instance maps; None to do without.

    Names may end differently as long as all names of a folder end alike from a `_`, `-` or `.` on: Cityscapes'
    `x_gtFine_labelIds.png` and `x_leftImg8bit.png` are both `x`.
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
        self._sources = find_images(source_folder)
        if not self._sources:
            raise DataError(f"{source_folder}: holds no image")
        partners = {folder: find_images(folder) for folder in (target_folder, instance_folder) if folder}
        folders = [source_folder, *partners]
        indices = _matched([self._sources, *partners.values()], folders)
        self.names = sorted(indices[0])
        self._sources = indices[0]
        by_folder = dict(zip(partners, indices[1:], strict=True))
        self._targets = by_folder[target_folder] if target_folder else None
        self._instances = by_folder[instance_folder] if instance_folder else None

    def __len__(self) -> int:
        return len(self.names)

    def read(self, index: int) -> Sample:
        """The maps of sample `index` at full size; DataError where a file cannot be used."""
        name = self.names[index]
        path = self._sources[name]
        if self.n_classes:
            ids = read_ids(path)
            source = checked_classes(ids, path, n_classes=self.n_classes, ignore_id=self._ignore_id)
        else:
            source = read_rgb(path)
        instances = target = None
        if self._instances is not None:
            instances = read_ids(self._instances[name])
            check_equal_size(source, path, instances, self._instances[name])
        if self._targets is not None:
            target = read_rgb(self._targets[name])
            check_equal_size(source, path, target, self._targets[name])
        return Sample(name=name, source=source, instances=instances, target=target)


def _matched(indices: Sequence[dict[str, Path]], folders: Sequence[Path]) -> list[dict[str, Path]]:
    """The same indices once every name has its partners; DataError lists what has none."""
    if _have_equal_names(indices):
        return list(indices)
    shortened = [_without_common_ending(index) for index in indices]
    if _have_equal_names(shortened):
        return shortened
    complaints = []
    everywhere = set.intersection(*(set(index) for index in indices))
    for index, folder in zip(indices, folders, strict=True):
        alone = sorted(set(index) - everywhere)
        if alone:
            more = f" and {len(alone) - _LISTED} more" if len(alone) > _LISTED else ""
            complaints.append(f"{len(alone)} in {folder}: {', '.join(alone[:_LISTED])}{more}")
    raise DataError(f"files without a partner of the same name: {'; '.join(complaints)}")


def _have_equal_names(indices: Sequence[dict[str, Path]]) -> bool:
    return all(set(index) == set(indices[0]) for index in indices)


def _without_common_ending(index: dict[str, Path]) -> dict[str, Path]:
    endings = [name[start.start() :] for name in list(index)[:1] for start in re.finditer(r"[_.-]", name)]
    for ending in endings:  # the longest first
        if all(name.endswith(ending) for name in index):
            return {name.removesuffix(ending): path for name, path in index.items()}
    return index
