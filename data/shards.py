"""Layouts `shards` and `unpaired_shards`: samples in tar files, named as WebDataset does, with an index beside each."""

from collections.abc import Sequence
from functools import partial
from typing import Literal, Self

import numpy as np

from data.batch import DataError, Sample
from data.layout import Layout, Provenance, RegisteredLayout
from data.map_reader import MapReader, source_kinds
from data.paired_folders import IF_MISSING, FolderNames, folder_patterns
from data.store import Folder
from data.tar_store import MANIFEST, ShardIndex, TarStore
from data.unpaired_folders import UnpairedFolders, readers_of_sides

Shuffle = Literal["full", "blocks"]
_BACK = {"source": "target", "target": "source"}  # what maps become where B is translated into A


class Shards(RegisteredLayout):
    """The samples of a set of shards, in the order of the tar files; NAME.source.png is the source of sample NAME.

    root: of a TarStore. name: of the set.
    kinds: of the maps that are read. if_there: those that are read where the shards have them.
    direction: BtoA reads sources as targets, and targets as sources.
    shuffle: blocks reads samples that are stored together at about the same time; see `Layout.blocks`.

    Raises:
        DataError: there is no such set, or it lacks a map.
    """

    def __init__(
        self,
        *,
        root: Folder,
        name: str,
        kinds: Sequence[str],
        if_there: Sequence[str] = (),
        reader: MapReader,
        direction: str,
        shuffle: Shuffle,
    ) -> None:
        store = tar_store(root)
        if name not in store.sets:
            raise DataError(f"{root}: has no shards of {name}, but of {', '.join(store.sets) or 'none'}")
        self.n_classes = reader.n_classes
        self.folders = [root / name]
        self.names = self._index = index = ShardIndex(store, root / name)
        self.archives = [(shard.name, shard.sha256) for shard in index.shards]
        self.blocks = np.array(index.starts) if shuffle == "blocks" else None
        self._store, self._reader = store, reader
        stored = {kind: _BACK.get(kind, kind) if direction == "BtoA" else kind for kind in (*kinds, *if_there)}
        self._stored = {kind: own for kind, own in stored.items() if kind in kinds or own in index.kinds}
        if lacking := next((own for own in self._stored.values() if own not in index.kinds), None):
            remedy = IF_MISSING.get(lacking, "")
            raise DataError(f"{self.folders[0]}: no map {lacking}; the shards have {', '.join(index.kinds)}{remedy}")

    @classmethod
    def open(
        cls,
        split: str,
        *,
        root: Folder,
        source_folder: FolderNames,
        weight_folder: str | None,
        direction: str,
        reader: MapReader,
        needs_targets: bool,
        needs_instances: bool,
        needs_features: bool,
        shuffle: Shuffle,
    ) -> Self:
        """Return a split of the data set, which is a set of shards. See RegisteredLayout.

        source_folder: the folders that the shards were made of, whose number matters. weight_folder: any reads weights.
        """
        sources = source_kinds(len(folder_patterns(source_folder)))
        of_targets = ["target"] + ["weights"] * bool(weight_folder)
        others = ["instances"] * (needs_instances and reader.divided_classes is None) + ["features"] * needs_features
        kinds = [*sources, *(of_targets if needs_targets else ()), *others]
        if_there = () if needs_targets else of_targets
        return cls(
            root=root, name=split, kinds=kinds, if_there=if_there, reader=reader, direction=direction, shuffle=shuffle
        )

    @classmethod
    def has_split(cls, split: str, *, root: Folder) -> bool:
        """Return whether there are shards of a split. See RegisteredLayout."""
        return split in tar_store(root).sets

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        blobs = self._index.blobs(index, list(self._stored.values()))
        return self._reader.provenance(dict(zip(self._stored, blobs, strict=True)))

    def read(self, index: int) -> Sample:
        """See Layout."""
        fetched = self._store.fetched(self._index.blobs(index, list(self._stored.values())))
        return self._reader.read(self.names[index], dict(zip(self._stored, fetched, strict=True)))


class UnpairedShards(UnpairedFolders):
    """Two sides without pairs: the sources of shards such as train_A-000000.tar, the targets of train_B-000000.tar."""

    @classmethod
    def open(  # type: ignore[override]  # settings are passed by name
        cls,
        split: str,
        *,
        root: Folder,
        source_folder: FolderNames,
        direction: str,
        reader: MapReader,
        needs_targets: bool,
        shuffle: Shuffle,
        needs_labels: bool = False,
    ) -> Layout:
        """Return a split of the data set, or its sources alone where targets are not needed. See RegisteredLayout."""
        of_sources, of_targets = readers_of_sides(reader)
        one, other = ("A", "B") if direction == "AtoB" else ("B", "A")
        kinds = source_kinds(len(folder_patterns(source_folder))) + ["labels"] * needs_labels
        side = partial(Shards, root=root, shuffle=shuffle)
        sources = side(name=f"{split}_{one}", kinds=kinds, reader=of_sources, direction=direction)
        if not needs_targets:
            return sources
        back = "BtoA" if direction == "AtoB" else "AtoB"  # targets are the sources of their side
        return cls(sources, side(name=f"{split}_{other}", kinds=["source"], reader=of_targets, direction=back))

    @classmethod
    def has_split(cls, split: str, *, root: Folder, direction: str) -> bool:  # type: ignore[override]
        """Return whether there are shards of the sources of a split. See RegisteredLayout."""
        return f"{split}_{'A' if direction == 'AtoB' else 'B'}" in tar_store(root).sets


def tar_store(root: Folder) -> TarStore:
    """Return the store of a data set; raise DataError where it is none of shards."""
    if isinstance(root.store, TarStore):
        return root.store
    raise DataError(
        f"{root}: has no {MANIFEST}: python -m tools.convert_data index-shards makes it of tar files, to-shards makes "
        "shards of folders"
    )
