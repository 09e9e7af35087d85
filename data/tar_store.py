"""The store of shards: tar files of samples, each with an index beside it, and a manifest that lists them."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, Literal

import numpy as np

from data.ranges import RemoteFile, StoreError
from data.store import Blob, Folder, Store

MANIFEST = "shards.json"
VERSION = 1  # of manifest and indices
_MANIFEST_BYTES = 2**28
_JOINED_BYTES = 2**16  # between two maps of a sample that are read by one request
_PIECE_BYTES = 2**24
AGAIN = "Copy it again, or run python -m tools.convert_data index-shards where it was made."


@dataclass(frozen=True)
class Shard:
    """A tar file of a data set, as the manifest lists it.

    name: of the file below the root; its index is beside it. index_sha256: of the index, in hexadecimal digits.
    """

    name: str
    n_bytes: int
    n_samples: int
    sha256: str
    index_sha256: str

    @property
    def index_name(self) -> str:
        """The name of its index."""
        return f"{self.name}.npy"


Sets = Mapping[str, Sequence[Shard]]


def is_inside(name: str) -> bool:
    """Return whether a name is that of a file below a folder, on any system."""
    parts = name.split("/")
    return not {"", ".", ".."} & set(parts) and not any(mark in name for mark in "\\:\0")


def index_type(kinds: Sequence[str], n_name_bytes: int) -> np.dtype[Any]:
    """Return the type of the rows of an index: the name of a sample, and where its maps are in the tar file."""
    place = np.dtype([("offset", "<i8"), ("size", "<i8"), ("suffix", "S5")])
    return np.dtype([("name", f"S{n_name_bytes}"), *((kind, place) for kind in kinds)])


def manifest_text(sets: Sets) -> str:
    """Return the text of a manifest."""
    of_sets = {name: list(map(vars, sets[name])) for name in sorted(sets)}
    return json.dumps({"version": VERSION, "sets": of_sets}, indent=1)


def _read_manifest(text: bytes, place: str) -> Sets:
    try:
        manifest = json.loads(text)
        version = manifest["version"]
        sets = {name: tuple(Shard(**shard) for shard in shards) for name, shards in manifest["sets"].items()}
        are_whole = all(
            is_inside(shard.name)
            and min(shard.n_bytes, shard.n_samples) >= 0
            and all(len(bytes.fromhex(digest)) == 32 for digest in (shard.sha256, shard.index_sha256))
            for shards in sets.values()
            for shard in shards
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{place}: is no manifest of shards. {AGAIN}") from error
    if version != VERSION or not are_whole:
        what = "lists files outside its folder, or is ill-formed" if version == VERSION else f"has version {version}"
        raise StoreError(f"{place}: {what}, expected version {VERSION}. {AGAIN}")
    return sets


@dataclass(frozen=True)
class TarStore(Store):
    """Shards below a folder or an address. A set holds those of a split, or of a side of it, as train or train_A."""

    root: str
    sets: Sets = field(repr=False)

    @classmethod
    def opened(cls, root: str) -> Folder | None:
        """Return the folder of an address, or of a folder that has a manifest; None for others.

        Raises:
            StoreError: the manifest cannot be read.
        """
        if "://" not in root:
            folder = Path(root).expanduser()
            if not (folder / MANIFEST).is_file():
                return None
            root = str(folder)
        manifest = RemoteFile(f"{root.rstrip('/')}/{MANIFEST}")
        sets = _read_manifest(manifest.read_all(_MANIFEST_BYTES), str(manifest))
        return Folder(cls(root.rstrip("/"), sets), PurePosixPath())

    def place(self, path: PurePath) -> str:
        """Return the address, or the path of this machine."""
        return str(RemoteFile(f"{self.root}/{path.as_posix()}"))

    def list(self, folder: Folder) -> list[Blob]:
        """Return none: layouts of shards read their index, since millions of samples need no object each."""
        return []

    def absence(self, folder: Folder) -> str:
        """Return a remedy for a layout of folders."""
        return f"no such folder, but {MANIFEST}; data.layout=shards or unpaired_shards reads that"

    @property
    def is_local(self) -> bool:
        """Whether the shards are files of this machine."""
        return "://" not in self.root

    def file(self, name: str) -> RemoteFile:
        """Return a file below the root."""
        return RemoteFile(f"{self.root}/{name}")

    def fetched(self, blobs: Sequence[Blob]) -> Sequence[Blob]:
        """Return the blobs of one sample with their content, of which adjacent ones are read by one request.

        Raises:
            StoreError: they cannot be read, or the tar file holds something else at their places.
        """
        members = [blob for blob in blobs if isinstance(blob, TarBlob)]
        contents = {}
        for run in _runs(members):
            shard, start, end = run[0].shard, run[0].offset - tarfile.BLOCKSIZE, run[-1].end
            if start < 0 or end > shard.n_bytes or any(member.n_bytes < 0 for member in run):
                raise StoreError(f"{run[0]}: its place is outside of the tar file. {AGAIN}")
            content = memoryview(self.file(shard.name).read(start, end))
            for member in run:
                own = member.offset - start
                _check_header(bytes(content[own - tarfile.BLOCKSIZE : own]), member)
                contents[member.offset, shard] = bytes(content[own : own + member.n_bytes])
        return [replace(member, content=contents[member.offset, member.shard]) for member in members]

    def problems(self, folder: Folder) -> Iterator[str]:
        """Yield a line for each shard of a set that is not the one that was indexed, by reading it whole."""
        for shard in self.sets.get(folder.path.as_posix(), ()):
            file, digest = self.file(shard.name), hashlib.sha256()
            try:
                for start in range(0, shard.n_bytes, _PIECE_BYTES):
                    digest.update(file.read(start, min(start + _PIECE_BYTES, shard.n_bytes)))
            except StoreError as error:
                yield str(error)
                continue
            if digest.hexdigest() != shard.sha256:
                yield f"{file}: differs from what was indexed. {AGAIN}"


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
            (fetched,) = self.folder.store.fetched([self])
            return fetched.open()
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


def _runs(members: Sequence[TarBlob]) -> list[list[TarBlob]]:
    """Return members in runs that lie close to each other in a shard."""
    runs = list[list[TarBlob]]()
    for member in sorted(members, key=lambda member: (member.shard.name, member.offset)):
        last = runs[-1][-1] if runs else None
        if last and last.shard == member.shard and 0 <= member.offset - last.end <= _JOINED_BYTES:
            runs[-1].append(member)
        else:
            runs.append([member])
    return runs


def _check_header(header: bytes, member: TarBlob) -> None:
    """Raise StoreError unless the block before a member is its header in the tar file."""
    try:
        info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        info = None
    if info is None or not info.isreg() or info.size != member.n_bytes:
        raise StoreError(f"{member}: is not at its place in the tar file, which was changed or damaged. {AGAIN}")
