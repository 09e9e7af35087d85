"""Layouts `shards` and `unpaired_shards`: samples in tar files, named as WebDataset does, with an index beside each."""

from collections.abc import Mapping, Sequence
from typing import Literal, Self

import numpy as np

from data.batch import DataError, Sample
from data.layout import Layout, Provenance, RegisteredLayout
from data.map_reader import MapReader, later_sources
from data.paired_folders import IF_MISSING, folder_patterns
from data.shard_index import ShardIndex
from data.store import Blob, Folder
from data.tar_store import MANIFEST, TarStore
from data.unpaired_folders import UnpairedFolders, readers_of_sides

Shuffle = Literal["full", "blocks"]
_SWAPPED = {"source": "target", "target": "source"}  # where B becomes A


class Shards(RegisteredLayout):
    """The samples of a set of shards, in the order of the tar files; NAME.source.png is the source of sample NAME.

    kinds: of the maps that are read, by what they become in a sample: {"source": "target"} reads targets as sources.
    shuffle: "blocks" reads samples that are stored together at about the same time; see `Layout.blocks`.

    Raises:
        DataError: the shards lack a map.
    """

    def __init__(
        self, index: ShardIndex, *, kinds: Mapping[str, str], reader: MapReader, shuffle: Shuffle = "full"
    ) -> None:
        self.n_classes = reader.n_classes
        self.names = self._index = index
        self.folders = [index.folder]
        self.archives = [(shard.name, shard.sha256) for shard in index.shards]
        self.blocks = np.array(index.starts) if shuffle == "blocks" else None
        self._reader, self._kinds = reader, kinds
        if lacking := next((kind for kind in kinds.values() if kind not in index.kinds), None):
            has = f"the shards have {', '.join(index.kinds)}"
            raise DataError(f"{index.folder}: no map {lacking}; {has}{IF_MISSING.get(lacking, '')}")

    @classmethod
    def open(
        cls,
        split: str,
        *,
        root: Folder,
        source_folder: str | Sequence[str] | None,
        weight_folder: str | None,
        direction: str,
        reader: MapReader,
        needs_targets: bool,
        needs_instances: bool,
        needs_features: bool,
        shuffle: Shuffle,
    ) -> Self:
        """Return a split of the data set, which is a set of shards. See RegisteredLayout.

        source_folder: of the folders that the shards were made of, whose number matters; weight_folder: whether weights
            are read.
        """
        index = _index(root, split)
        is_read = {
            "target": needs_targets or _swapped("target", direction) in index.kinds,
            "instances": needs_instances and reader.divided_classes is None,
            "features": needs_features,
            "weights": bool(weight_folder) and (needs_targets or "weights" in index.kinds),
        }
        kinds = [*_sources(source_folder), *(kind for kind, is_needed in is_read.items() if is_needed)]
        kinds_there = {kind: _swapped(kind, direction) for kind in kinds}
        return cls(index, kinds=kinds_there, reader=reader, shuffle=shuffle)

    @classmethod
    def has_split(cls, split: str, *, root: Folder) -> bool:
        """Return whether there are shards of a split. See RegisteredLayout."""
        return split in _store(root).sets

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        return self._reader.provenance(dict(zip(self._kinds, self._blobs(index), strict=True)))

    def read(self, index: int) -> Sample:
        """See Layout."""
        fetched = self.folders[0].store.fetched(self._blobs(index))
        return self._reader.read(self.names[index], dict(zip(self._kinds, fetched, strict=True)))

    def _blobs(self, index: int) -> Sequence[Blob]:
        return self._index.blobs(index, list(self._kinds.values()))


class UnpairedShards(UnpairedFolders):
    """Two sides without pairs, in shards: train_A-000000.tar and so on hold sources, train_B-000000.tar targets."""

    @classmethod
    def open(  # type: ignore[override]  # settings are passed by name
        cls,
        split: str,
        *,
        root: Folder,
        source_folder: str | Sequence[str] | None,
        direction: str,
        reader: MapReader,
        needs_targets: bool,
        shuffle: Shuffle,
        needs_labels: bool = False,
    ) -> Layout:
        """Return a split of the data set, or its sources alone where targets are not needed. See RegisteredLayout."""
        sources, targets = readers_of_sides(reader)
        kinds = [*_sources(source_folder), *(["labels"] if needs_labels else [])]
        first, second = "AB" if direction == "AtoB" else "BA"
        kinds_there = {kind: _swapped(kind, direction) for kind in kinds}
        side = Shards(_index(root, f"{split}_{first}"), kinds=kinds_there, reader=sources, shuffle=shuffle)
        if not needs_targets:
            return side
        there = {"source": _swapped("target", direction)}
        return cls(side, Shards(_index(root, f"{split}_{second}"), kinds=there, reader=targets, shuffle=shuffle))

    @classmethod
    def has_split(cls, split: str, *, root: Folder, direction: str) -> bool:  # type: ignore[override]
        """Return whether there are shards of the sources of a split. See RegisteredLayout."""
        return f"{split}_{'A' if direction == 'AtoB' else 'B'}" in _store(root).sets


def _sources(source_folder: str | Sequence[str] | None) -> list[str]:
    """Return the kinds of maps that are sources: the first, and those stacked behind it."""
    return ["source", *later_sources(len(folder_patterns(source_folder)))]


def _swapped(kind: str, direction: str) -> str:
    """Return the kind of map that is a source or a target in a direction."""
    return _SWAPPED.get(kind, kind) if direction == "BtoA" else kind


def _store(root: Folder) -> TarStore:
    if not isinstance(root.store, TarStore):
        raise DataError(
            f"{root}: has no {MANIFEST}: python -m tools.convert_data index-shards makes it of tar files, to-shards "
            "makes shards of folders"
        )
    return root.store


def _index(root: Folder, name: str) -> ShardIndex:
    """Return the samples of a set of shards; raise DataError where there is none of that name."""
    sets = _store(root).sets
    if name not in sets:
        raise DataError(f"{root}: has no shards of {name}, but of {', '.join(sets) or 'none'}")
    return ShardIndex(_store(root), root / name)
