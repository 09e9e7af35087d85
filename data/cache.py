"""Decoded and resized samples, kept so that no later epoch decodes them again."""

import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

import torch

from data.batch import Sample
from data.layout import Layout, Origin
from data.preprocessing import Preprocessing, place

_FORMAT = 2  # of the files; part of their keys
_NAMES = f"??/{'?' * 62}.pt*"  # of a SHA-256 in hexadecimal
_MAPS = ("source", "instances", "target", "features")
_WRITING = ".writing"  # a file until it is whole
_ABANDONED_S = 3600  # a process that was killed left it
_RECOUNT_WRITES = 64  # between two looks at what other processes have written
_NOTED_AFTER_S = 3600
_UNUSED_AFTER_S = 24 * 3600


@dataclass(frozen=True)
class Outlook:
    """How much of a data set a cache will hold.

    n_bytes: of all samples.
    n_fitting: samples for which there is room.
    lacks_space: whether it is the file system that has too little room, not the cache.
    """

    n_samples: int
    n_bytes: int
    n_fitting: int
    lacks_space: bool


@dataclass
class _File:
    """A file of the folder, and its names: of one sample, or of several with the same content."""

    n_bytes: int
    used_ns: int
    names: list[Path] = field(default_factory=list)


class SampleCache:
    """Files of uint8 and id maps, read as memory maps, in one folder for all processes and runs.

    A file has two names, hard links: one of what the sample's content is made of, which stays when a data set is moved
    or copied, and one of the state of its source files, which is known without reading them. Where a file system has
    no hard links, there is only the latter. A file's time is that of its last use, to the hour: when there is no room
    for another sample, those go that no run has used for a day, the longest unused first. (To drop others for it would
    leave a data set that is too large without any: each would go before its turn comes again.)

    folder: where; made when it is missing.
    max_bytes: most that the folder holds; processes that write at once may exceed it by some samples.
    spare_share: part of the file system that is left to others: checkpoints, or the loader's batches in shared memory.
    """

    def __init__(self, folder: Path, max_bytes: int, spare_share: float = 0.0) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._spare_share = spare_share
        self._held_bytes = 0
        self._unused: list[_File] = []  # the longest unused last
        self._writes = 0

    def read(self, key: str, name: str) -> Sample | None:
        """The sample of a key, or None where it is not there or cannot be read."""
        path = self._path(key)
        try:
            maps = torch.load(path, mmap=True, weights_only=True)
            sample = Sample(name, *(maps[kind] for kind in _MAPS))
        except FileNotFoundError:
            return None
        except Exception:  # noqa: BLE001  whatever a damaged file leads to: what it held is read anew
            with suppress(OSError):
                path.unlink()
            return None
        self._note_use(path)
        return sample

    def keep(self, sample: Sample, *, by_content: str, by_state: str) -> None:
        """Have a sample under both keys, unless there is no room; at any instant its file is whole or not there."""
        content, state = self._path(by_content), self._path(by_state)
        with suppress(OSError, RuntimeError):  # a full disk: the sample is decoded again next time
            for path in (content, state):
                path.parent.mkdir(parents=True, exist_ok=True)
            if not content.exists():
                self._write(sample, content, state)
            with suppress(FileExistsError):
                state.hardlink_to(content)

    def outlook(self, keys: Iterable[str], n_samples: int, sample_bytes: int) -> Outlook:
        """How much of a data set fits beside what other runs use. keys: of the samples' states, asked if it matters."""
        self._recount()
        unused_bytes = sum(file.n_bytes for file in self._unused)
        n_fitting = max(unused_bytes + self._room(sample_bytes), 0) // sample_bytes
        if n_fitting < n_samples:
            n_fitting = min(n_fitting + sum(self._path(key).exists() for key in keys), n_samples)
        lacks_space = self._held_bytes + self._free(sample_bytes) < self._max_bytes
        return Outlook(n_samples, n_samples * sample_bytes, n_fitting, lacks_space)

    def _write(self, sample: Sample, content: Path, state: Path) -> None:
        """Put a file under the name of its content, or else of the state of its sources."""
        if not self._make_room(_n_bytes(sample)):
            return
        temporary = content.with_name(f"{content.name}.{uuid4().hex}{_WRITING}")
        try:
            with temporary.open("wb") as file:
                torch.save({kind: getattr(sample, kind) for kind in _MAPS}, file)
            self._note_use(temporary)
            self._held_bytes += temporary.stat().st_size
            try:
                content.hardlink_to(temporary)
            except FileExistsError:  # another process was faster
                pass
            except OSError:  # no hard links here
                temporary.replace(state)
        finally:
            temporary.unlink(missing_ok=True)

    def _make_room(self, n_bytes: int) -> bool:
        """Whether there is room for a sample, if need be in the place of unused ones."""
        if self._writes % _RECOUNT_WRITES == 0:
            self._recount()
        self._writes += 1
        while self._room(n_bytes) < n_bytes <= self._max_bytes and self._unused:
            self._remove(self._unused.pop())
        return self._room(n_bytes) >= n_bytes

    def _room(self, sample_bytes: int) -> int:
        return min(self._max_bytes - self._held_bytes, self._free(sample_bytes))

    def _free(self, sample_bytes: int) -> int:
        """Bytes of the file system that are left to the cache."""
        for folder in (self._folder, *self._folder.parents):  # the folder itself may be yet to be made
            with suppress(OSError):
                disk = shutil.disk_usage(folder)
                return disk.free - max(sample_bytes, int(self._spare_share * disk.total))
        return 0

    def _recount(self) -> None:
        """Look at what all processes have written and used."""
        files: dict[int, _File] = {}
        for path in self._folder.glob(_NAMES):
            with suppress(OSError):  # another process has just put it in its place
                state, is_writing = path.lstat(), path.suffix == _WRITING
                if is_writing and time.time() - state.st_mtime > _ABANDONED_S:
                    path.unlink()
                    continue
                file = files.setdefault(state.st_ino, _File(state.st_size, state.st_mtime_ns))
                file.names += [] if is_writing else [path]
        self._held_bytes = sum(file.n_bytes for file in files.values())
        unused = [file for file in files.values() if file.names and _age_s(file.used_ns) > _UNUSED_AFTER_S]
        self._unused = sorted(unused, key=lambda file: file.used_ns, reverse=True)

    def _remove(self, file: _File) -> None:
        """Take away a file, unless it has been used meanwhile; a process that reads it keeps what it has mapped."""
        with suppress(OSError):  # another process has removed it, and filled its room
            if file.names[0].stat().st_mtime_ns == file.used_ns:
                for name in file.names:
                    name.unlink(missing_ok=True)
                self._held_bytes -= file.n_bytes

    def _note_use(self, path: Path) -> None:
        """Once an hour, which costs less than each time; and not each file system notes when a file is read."""
        with suppress(OSError):  # it is another user's
            if _age_s(path.stat().st_mtime_ns) > _NOTED_AFTER_S:
                os.utime(path)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.pt"


class CachedLayout:
    """A layout whose samples come resized for training, from the cache where they have been read before.

    Only what no draw decides is done: cutting and mirroring are left to the placement.
    """

    def __init__(self, layout: Layout, preprocessing: Preprocessing, cache: SampleCache) -> None:
        self.n_classes = layout.n_classes
        self.names: Sequence[str] = layout.names
        self.folders: Sequence[Path] = layout.folders
        self.files: Sequence[Path] = layout.files
        self._layout = layout
        self._preprocessing = preprocessing
        self._cache = cache

    def __len__(self) -> int:
        return len(self._layout)

    def origin(self, index: int) -> Origin:
        """The same files, and the size that they are brought to."""
        origin = self._layout.origin(index)
        return replace(origin, rule=f"{_FORMAT} {origin.rule} {self._preprocessing.size_rule}")

    def read(self, index: int) -> Sample:
        """Sample `index`, resized."""
        origin, name = self.origin(index), self.names[index]
        states = origin.states()
        by_state = _key(origin.rule, states)
        cached = self._cache.read(by_state, name)
        if cached is not None:
            return cached
        by_content = _key(origin.rule, origin.digests())
        sample = self._cache.read(by_content, name) or self._resized(index)
        if origin.states() == states:  # else what was decoded may not be what was hashed
            self._cache.keep(sample, by_content=by_content, by_state=by_state)
        return sample

    def outlook(self, index: int) -> Outlook:
        """How much of the samples the cache will hold, if all are as large as sample `index`."""
        origins = (self.origin(index) for index in range(len(self)))
        keys = (_key(origin.rule, origin.states()) for origin in origins)
        return self._cache.outlook(keys, len(self), _n_bytes(self._resized(index)))

    def _resized(self, index: int) -> Sample:
        sample = self._layout.read(index)
        return place(sample, self._preprocessing.whole(sample), source_is_ids=self.n_classes > 0)


def _age_s(time_ns: int) -> float:
    return (time.time_ns() - time_ns) / 1e9


def _n_bytes(sample: Sample) -> int:
    maps = [getattr(sample, kind) for kind in _MAPS]
    return sum(tensor.nbytes for tensor in maps if tensor is not None)


def _key(rule: str, files: str) -> str:
    text = f"{rule} {files}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()  # names of files may be any bytes
