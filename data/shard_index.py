"""The samples of shards by number, from the indices beside the tar files."""

import io
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, overload

import numpy as np

from data.ranges import StoreError
from data.store import Folder
from data.tar_store import AGAIN, Shard, TarBlob, TarStore, index_type, is_inside

_ROW_BYTES = 2**12  # of an index, at most


class ShardIndex(Sequence[str]):
    """The names of the samples of a set, and the places of their maps. Indices of this machine are mapped into memory.

    kinds: of maps that each sample has.
    starts: the number of the first sample of each shard.

    Raises:
        StoreError: a tar file or an index is missing, or is not as the manifest says.
    """

    def __init__(self, store: TarStore, folder: Folder) -> None:
        self._store = store
        self.folder = folder
        self.shards = store.sets[folder.path.as_posix()]
        *self.starts, self._length = accumulate((shard.n_samples for shard in self.shards), initial=0)
        self._tables = dict[int, np.ndarray]()
        if store.is_local:
            for number, shard in enumerate(self.shards):
                self._check_size(shard)
                self._table(number)
        self.kinds = (self._table(0).dtype.names or ())[1:]

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_tables": {}}  # another process maps them again

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number, row = self._place(range(len(self))[index])
        return self._name(number, self._table(number)["name"][row])

    def blobs(self, index: int, kinds: Sequence[str]) -> list[TarBlob]:
        """Return the maps of a sample."""
        number, row = self._place(index)
        places = dict(zip(("name", *self.kinds), self._table(number)[row].item(), strict=True))
        name = self._name(number, places["name"])
        blobs = []
        for kind in kinds:
            offset, size, suffix = places[kind]
            member = f"{name}.{kind}{suffix.decode('ascii', 'replace')}"
            blobs.append(TarBlob(self.folder, member, self.shards[number], offset, size))
        return blobs

    def _place(self, index: int) -> tuple[int, int]:
        """Return the shard of a sample, and its row there."""
        number = bisect_right(self.starts, index) - 1
        return number, index - self.starts[number]

    def _name(self, number: int, stored: bytes) -> str:
        name = stored.decode("utf-8", "surrogateescape")
        if not is_inside(name):
            raise StoreError(f"{self._store.file(self.shards[number].index_name)}: has no name of a sample. {AGAIN}")
        return name

    def _check_size(self, shard: Shard) -> None:
        file = self._store.file(shard.name)
        if (n_bytes := file.size()) != shard.n_bytes:
            raise StoreError(f"{file}: has {n_bytes} bytes, was indexed with {shard.n_bytes}. {AGAIN}")

    def _table(self, number: int) -> np.ndarray:
        """Return the index of a shard, (n_samples,) of `index_type`."""
        if number not in self._tables:
            self._tables[number] = self._read_table(self.shards[number])
        return self._tables[number]

    def _read_table(self, shard: Shard) -> np.ndarray:
        file = self._store.file(shard.index_name)
        try:
            if self._store.is_local:
                table = np.load(Path(file.url), mmap_mode="r", allow_pickle=False)
            else:
                content = file.read_all((1 + shard.n_samples) * _ROW_BYTES)
                table = np.load(io.BytesIO(content), allow_pickle=False)
            kinds = (table.dtype.names or ())[1:]
            fits = table.shape == (shard.n_samples,) and table.dtype == index_type(kinds, table.dtype["name"].itemsize)
        except (OSError, ValueError, EOFError, KeyError, TypeError, SyntaxError) as error:
            raise StoreError(f"{file}: cannot be read as an index: {str(error).splitlines()[0]}. {AGAIN}") from error
        expected = getattr(self, "kinds", kinds)
        if not fits or kinds != expected:
            raise StoreError(f"{file}: is not the index of {shard.n_samples} samples with the same maps. {AGAIN}")
        return np.asarray(table)
