"""The store of shards: tar files of samples, an index beside each, and a manifest of all of them."""

import io
import json
import tarfile
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from itertools import accumulate, pairwise
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, Literal
from urllib.parse import quote

import numpy as np

from data.ranges import RemoteFile, StoreError
from data.store import Blob, Folder, Store
from utils.paths import expanded

MANIFEST = "shards.json"
_VERSION = 1  # of manifest and indices
_PLACE = np.dtype([("offset", "<i8"), ("size", "<i8"), ("suffix", "S5")])  # of a map in a tar file
_MOST_BYTES = 2**28  # of a manifest
_ROW_BYTES = 2**12  # of an index, at most
_JOINED_BYTES = 2**14  # between two maps of a sample that are read by one request
_PIECE_BYTES = 2**24
_AGAIN = "Copy it again, or run python -m tools.convert_data index-shards where it was made."


@dataclass(frozen=True)
class Shard:
    """A tar file of a data set, as the manifest lists it.

    name: of the file below the root; its index has that name and .npy. sha256: of the file, in hexadecimal digits.
    """

    name: str
    n_bytes: int
    n_samples: int
    sha256: str


Sets = Mapping[str, Sequence[Shard]]


def is_inside(name: str) -> bool:
    """Return whether a name is that of a file below a folder, on any system."""
    return {"", ".", ".."}.isdisjoint(name.split("/")) and not any(mark in name for mark in "\\:\0")


def index_type(kinds: Sequence[str], n_name_bytes: int) -> np.dtype[Any]:
    """Return the type of the rows of an index: the name of a sample, and where its maps are in the tar file."""
    return np.dtype([("name", f"S{n_name_bytes}"), *((kind, _PLACE) for kind in kinds)])


def manifest_text(sets: Sets) -> str:
    """Return the text of a manifest."""
    return json.dumps({"version": _VERSION, "sets": {name: list(map(vars, sets[name])) for name in sets}}, indent=1)


@dataclass(frozen=True)
class TarStore(Store):
    """Shards below a folder or an address.

    sets: by name: the shards of a split, as train, or of one of its sides, as train_A.
    """

    root: str
    sets: Sets = field(repr=False)

    @classmethod
    def opened(cls, root: str) -> Folder | None:
        """Return the folder of an address, or of a folder that has a manifest; None for others.

        Raises:
            StoreError: the manifest cannot be read.
        """
        root = root if "://" in root else str(expanded(root, "data.root"))
        if "://" not in root and not Path(root, MANIFEST).is_file():
            return None
        file = RemoteFile(f"{root.rstrip('/')}/{MANIFEST}")
        try:
            manifest = json.loads(file.read_all(_MOST_BYTES))
            sets = {name: tuple(Shard(**shard) for shard in shards) for name, shards in manifest["sets"].items()}
            all_shards = [shard for shards in sets.values() for shard in shards]
            is_known = manifest["version"] == _VERSION and all(sets.values()) and all(map(_is_sound, all_shards))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            sets, is_known = {}, False
        if not is_known:
            raise StoreError(f"{file}: is no manifest of version {_VERSION} of files below it. {_AGAIN}")
        return Folder(cls(root.rstrip("/"), sets), PurePosixPath())

    def place(self, path: PurePath) -> str:
        """Return the address, or the path of this machine."""
        return f"{self.root}/{path.as_posix()}"

    def list(self, folder: Folder) -> list[Blob]:
        """Return none: layouts of shards read the index, since millions of samples need no object each."""
        return []

    def absence(self, folder: Folder) -> str:
        """Return a remedy for a layout of folders."""
        return f"no such folder, but {MANIFEST}; data.layout=shards or unpaired_shards reads that"

    def file(self, name: str) -> RemoteFile:
        """Return a file below the root."""
        is_url = self.root.startswith(("http://", "https://"))  # in which %2e%2e would be .., and # the end
        return RemoteFile(f"{self.root}/{quote(name) if is_url else name}")

    def fetched(self, blobs: Sequence[Blob]) -> Sequence[Blob]:
        """Return the blobs of one sample with their content, by one request where they are close to each other.

        Raises:
            StoreError: they cannot be read, or the tar file holds something else at their places.
        """
        members = sorted((blob for blob in blobs if isinstance(blob, TarBlob)), key=lambda member: member.offset)
        are_close = all(after.offset - before.end <= _JOINED_BYTES for before, after in pairwise(members))
        contents = dict[int, bytes]()
        for run in [members] if are_close else [[member] for member in members]:
            start, end = run[0].offset - tarfile.BLOCKSIZE, max(member.end for member in run)
            if start < 0 or end > run[0].shard.n_bytes or any(member.n_bytes < 0 for member in run):
                raise StoreError(f"{run[0]}: its place is outside of the tar file. {_AGAIN}")
            content = self.file(run[0].shard.name).read(start, end)
            for member in run:
                _check_header(content[member.offset - tarfile.BLOCKSIZE - start : member.offset - start], member)
                contents[member.offset] = content[member.offset - start : member.end - start]
        return [replace(blob, content=contents[blob.offset]) for blob in blobs if isinstance(blob, TarBlob)]

    def problems(self, folder: Folder) -> Iterator[str]:
        """Yield a line for each shard of a set that is not the one that was indexed, by reading it whole."""
        for shard in self.sets.get(folder.path.as_posix(), ()):
            file, digest = self.file(shard.name), sha256()
            for start in range(0, shard.n_bytes, _PIECE_BYTES):
                digest.update(file.read(start, min(start + _PIECE_BYTES, shard.n_bytes)))
            if digest.hexdigest() != shard.sha256:
                yield f"{file}: differs from what was indexed. {_AGAIN}"


@dataclass(frozen=True)
class TarBlob(Blob):
    """A member of a shard; one that was fetched has its content."""

    shard: Shard
    offset: int
    n_bytes: int
    content: bytes | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.folder.store.place(PurePosixPath(self.shard.name, self.name))

    @property
    def end(self) -> int:
        """The place behind its last byte."""
        return self.offset + self.n_bytes

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """See Blob."""
        if self.content is None:
            return self.folder.store.fetched([self])[0].open()
        return io.BytesIO(self.content)

    def size(self) -> int:
        """See Blob."""
        return self.n_bytes

    def state(self) -> str:
        """Return the digest of its shard and its place there, which no byte needs to be read for."""
        return f"{self.shard.sha256}:{self.offset}:{self.n_bytes}"

    def content_key(self) -> str:
        """See Blob."""
        return self.state()


def _is_sound(shard: Shard) -> bool:
    """Return whether a shard is as `manifest_text` writes it."""
    has_types = all(type(vars(shard)[one.name]) is one.type for one in fields(shard))
    return has_types and min(shard.n_bytes, shard.n_samples) > 0 and is_inside(shard.name)


def _check_header(header: bytes, member: TarBlob) -> None:
    """Raise StoreError unless the block before a member is the header of a plain file of its size."""
    try:
        found = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        is_own = found.isreg() and found.size == member.n_bytes
    except tarfile.HeaderError:
        is_own = False
    if not is_own:
        raise StoreError(f"{member}: is not at its place in the tar file, which was changed or damaged. {_AGAIN}")


class ShardIndex(Sequence[str]):
    """The names of the samples of a set, and the places of their maps. Indices of this machine are mapped into memory.

    shards, starts: and the number of the first sample of each. kinds: of the maps that each sample has.

    Raises:
        StoreError: a tar file or an index is missing, or is not as the manifest says.
    """

    def __init__(self, store: TarStore, folder: Folder) -> None:
        self._store, self._folder = store, folder
        self.shards = store.sets[folder.path.as_posix()]
        *self.starts, self._length = accumulate((shard.n_samples for shard in self.shards), initial=0)
        self._tables = dict[int, np.ndarray]()
        self.kinds: Sequence[str] = ()
        self.kinds = (self._table(0).dtype.names or ())[1:]
        for number, shard in enumerate(self.shards) if "://" not in store.root else ():
            if (n_bytes := store.file(shard.name).size()) != shard.n_bytes:
                raise StoreError(f"{store.file(shard.name)}: has {n_bytes} bytes, not {shard.n_bytes}. {_AGAIN}")
            self._table(number)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_tables": {}}  # another process maps them again

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number, row = self._place(range(len(self))[index])
        return self._name(number, self._table(number)["name"][row])

    def blobs(self, index: int, kinds: Sequence[str]) -> list[TarBlob]:
        """Return the maps of a sample."""
        number, row = self._place(index)
        name, *places = self._table(number)[row].item()
        own = dict(zip(self.kinds, places, strict=True))
        members = [(f"{self._name(number, name)}.{kind}", *own[kind]) for kind in kinds]
        return [
            TarBlob(self._folder, f"{member}{suffix.decode('ascii', 'replace')}", self.shards[number], offset, size)
            for member, offset, size, suffix in members
        ]

    def _place(self, index: int) -> tuple[int, int]:
        """Return the shard of a sample, and its row there."""
        number = bisect_right(self.starts, index) - 1
        return number, index - self.starts[number]

    def _name(self, number: int, stored: bytes) -> str:
        name = stored.decode("utf-8", "surrogateescape")
        if not is_inside(name):
            raise StoreError(f"{self._file(number)}: has no name of a sample. {_AGAIN}")
        return name

    def _file(self, number: int) -> RemoteFile:
        return self._store.file(f"{self.shards[number].name}.npy")

    def _table(self, number: int) -> np.ndarray:
        """Return the index of a shard, (n_samples,) of `index_type`."""
        if number in self._tables:
            return self._tables[number]
        file, n_samples = self._file(number), self.shards[number].n_samples
        try:
            if "://" in self._store.root:
                content = io.BytesIO(file.read_all((1 + n_samples) * _ROW_BYTES))
                table = np.asarray(np.load(content, allow_pickle=False))
            else:
                table = np.load(Path(file.url), mmap_mode="r", allow_pickle=False)
            kinds = (table.dtype.names or ())[1:]
            fits = table.shape == (n_samples,) and table.dtype == index_type(kinds, table.dtype["name"].itemsize)
        except (OSError, ValueError, EOFError, KeyError, TypeError, SyntaxError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
            raise StoreError(f"{file}: cannot be read as an index: {reason}. {_AGAIN}") from error
        if not fits or kinds != (self.kinds or kinds):
            raise StoreError(f"{file}: is not the index of {n_samples} samples with the same maps. {_AGAIN}")
        self._tables[number] = table
        return table
