"""Decoded and resized samples, kept so that no later epoch decodes them again."""

import hashlib
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import torch

from data.batch import Sample
from data.layout import Layout
from data.preprocessing import Preprocessing, place

_FORMAT = 1  # of the files; part of their keys
_MAPS = ("source", "instances", "target", "features")
_WRITING = ".writing"  # a file until it is whole
_ABANDONED_S = 3600  # a process that was killed left it
_RECOUNT_WRITES = 64  # between two looks at what other processes have written


class SampleCache:
    """Files of uint8 and id maps, read as memory maps, in one folder for all processes and runs.

    folder: where; made when it is missing.
    max_bytes: most that the folder holds; processes that write at once may exceed it by some samples.
    spare_share: part of the file system that is left to others: checkpoints, or the loader's batches in shared memory.
    """

    def __init__(self, folder: Path, max_bytes: int, spare_share: float = 0.0) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._spare_share = spare_share
        self._held_bytes = 0
        self._writes = 0

    def read(self, key: str, name: str) -> Sample | None:
        """The sample of a key, or None where it is not there or cannot be read."""
        path = self._path(key)
        try:
            maps = torch.load(path, mmap=True, weights_only=True)
            return Sample(name, *(maps[field] for field in _MAPS))
        except FileNotFoundError:
            return None
        except Exception:  # noqa: BLE001  whatever a damaged file leads to: what it held is read anew
            with suppress(OSError):
                path.unlink()
            return None

    def write(self, key: str, sample: Sample) -> None:
        """Keep a sample, unless there is no room; at any instant its file is whole or not there."""
        maps = {field: getattr(sample, field) for field in _MAPS}
        n_bytes = sum(tensor.nbytes for tensor in maps.values() if tensor is not None)
        path = self._path(key)
        temporary = path.with_name(f"{path.name}.{uuid4().hex}{_WRITING}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not self._has_room(n_bytes):
                return
            with temporary.open("wb") as file:
                torch.save(maps, file)
            temporary.replace(path)
            self._held_bytes += n_bytes
        except (OSError, RuntimeError):  # a full disk: the sample is decoded again next time
            with suppress(OSError):
                temporary.unlink()

    def _has_room(self, n_bytes: int) -> bool:
        if self._writes % _RECOUNT_WRITES == 0:
            self._recount()
        self._writes += 1
        disk = shutil.disk_usage(self._folder)
        spare_bytes = max(2 * n_bytes, int(self._spare_share * disk.total))
        return self._held_bytes + n_bytes <= self._max_bytes and disk.free > spare_bytes

    def _recount(self) -> None:
        self._held_bytes = 0
        for path in self._folder.rglob("*.*"):
            with suppress(OSError):  # another process has just put it in its place
                state = path.stat()
                if path.suffix == _WRITING and time.time() - state.st_mtime > _ABANDONED_S:
                    path.unlink()
                else:
                    self._held_bytes += state.st_size

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

    def identity(self, index: int) -> str:
        """What the sample's content depends on: its files as they are now, and the size that it is brought to."""
        return f"{_FORMAT} {self._layout.identity(index)} {self._preprocessing.size_rule}"

    def read(self, index: int) -> Sample:
        """Sample `index`, resized."""
        key = hashlib.sha256(self.identity(index).encode()).hexdigest()
        cached = self._cache.read(key, self.names[index])
        if cached is not None:
            return cached
        sample = self._layout.read(index)
        resized = place(sample, self._preprocessing.whole(sample), source_is_ids=self.n_classes > 0)
        self._cache.write(key, resized)
        return resized
