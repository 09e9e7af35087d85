"""A cache of decoded and resized samples for later epochs."""

import os
import shutil
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import torch

from data.batch import MAPS, Sample
from data.layout import DerivedLayout, Layout, Provenance
from data.preprocessing import Preprocessing, place
from utils.torch_private import is_system_error

_FORMAT = 2  # of the files; part of the keys
_NAMES = f"??/{'?' * 62}.pt*"  # of the files: their keys, SHA-256 in hexadecimal digits
_WRITING = ".writing"  # suffix of a file until it is complete
_ABANDONED_S = 3600  # age at which a file being written is taken to be that of a killed process
_RECOUNT_WRITES = 64  # writes after which the files of other processes are counted again
_TOUCHED_AFTER_S = 3600
_UNUSED_AFTER_S = 24 * 3600


class SampleCache:
    """Files of uint8 and id maps in one folder for all processes and runs.

    A file has two names, which are hard links: a key of the content of its source files, which stays when a data set is
    moved or copied, and a key of their state, which is known without reading them. On a file system without hard links
    it has only the latter. The modification time of a file is that of its last use, to the hour. When there is no room
    for another sample, files that no run has used for a day are removed, the longest unused first. Files in use are
    never removed: of a data set that is too large, each would be removed before it is needed again.

    folder: created when the first sample is kept.
    spare_share: share of the file system that stays free for checkpoints, or for batches in shared memory. Processes
        that write at the same time may take a few samples of it.
    """

    def __init__(self, folder: Path, *, spare_share: float = 0.0) -> None:
        self._folder = folder
        self._spare_share = spare_share
        self._unused: list[tuple[int, list[Path]]] = []  # time of the last use and names; the longest unused last
        self._writes = 0

    def read(self, key: str, name: str) -> Sample | None:
        """Return the sample of a key, or None where there is none or its file is damaged."""
        path = self._path(key)
        try:
            maps = torch.load(path, weights_only=True)  # no memory map, which a shortened file ends by SIGBUS
            sample = Sample(name, **{kind: maps[kind] for kind in MAPS if kind in maps})  # earlier versions have fewer
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001  a damaged file can raise anything; its sample is decoded again
            if not is_system_error(error):
                with suppress(OSError):
                    path.unlink()
            return None
        with suppress(OSError):  # the file may belong to another user
            if _age_s(path.stat().st_mtime_ns) > _TOUCHED_AFTER_S:  # file systems often record no times of access
                os.utime(path)
        return sample

    def keep(self, sample: Sample, *, by_content: str, by_state: str) -> None:
        """Keep a sample under both keys, unless there is no room. Its file appears only once it is complete."""
        content, state = self._path(by_content), self._path(by_state)
        with suppress(OSError, RuntimeError):  # a full disk: the sample is decoded again next time
            for path in (content, state):
                path.parent.mkdir(parents=True, exist_ok=True)
            if not content.exists():
                self._write(sample, content, state)
            state.hardlink_to(content)

    def free_bytes(self) -> int:
        """Return the bytes of the file system that the cache may still take."""
        for folder in (self._folder, *self._folder.parents):  # the folder itself may not exist yet
            with suppress(OSError):
                disk = shutil.disk_usage(folder)
                return max(disk.free - int(self._spare_share * disk.total), 0)
        return 0

    def _write(self, sample: Sample, content: Path, state: Path) -> None:
        """Write a file under the name of its content, or of its state where hard links are not supported."""
        if not self._make_room(_n_bytes(sample)):
            return
        temporary = content.with_name(f"{content.name}.{uuid4().hex}{_WRITING}")
        try:
            with temporary.open("wb") as file:
                torch.save({kind: getattr(sample, kind) for kind in MAPS}, file)
            try:
                content.hardlink_to(temporary)
            except FileExistsError:  # another process was faster
                pass
            except OSError:  # the file system has no hard links
                temporary.replace(state)
        finally:
            temporary.unlink(missing_ok=True)

    def _make_room(self, n_bytes: int) -> bool:
        """Remove unused files until there is room for a sample; return whether there is."""
        if self._writes % _RECOUNT_WRITES == 0:
            self._recount()
        self._writes += 1
        while self.free_bytes() < n_bytes and self._unused:
            self._remove(*self._unused.pop())
        return self.free_bytes() >= n_bytes

    def _recount(self) -> None:
        """List the unused files of all processes; remove what killed processes have not written to the end."""
        names = defaultdict[tuple[int, int], list[Path]](list)  # by time of use and number of a file
        for path in self._folder.glob(_NAMES):
            with suppress(OSError):  # another process has just renamed it
                state = path.lstat()
                if path.suffix != _WRITING:
                    names[state.st_mtime_ns, state.st_ino].append(path)
                elif _age_s(state.st_mtime_ns) > _ABANDONED_S:
                    path.unlink()
        unused = ((used_ns, of_file) for (used_ns, _), of_file in names.items() if _age_s(used_ns) > _UNUSED_AFTER_S)
        self._unused = sorted(unused, reverse=True)

    def _remove(self, used_ns: int, names: Sequence[Path]) -> None:
        """Remove a file unless it has been used meanwhile; a process that has opened it can still read it."""
        with suppress(OSError):  # another process has removed it and used the space
            if names[0].stat().st_mtime_ns == used_ns:
                for name in names:
                    name.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.pt"


class CachedLayout(DerivedLayout):
    """A layout whose samples are resized for training, and read from the cache where they are in it.

    Only the part of preprocessing that is not random is cached: cropping and mirroring come after it.
    """

    def __init__(self, layout: Layout, preprocessing: Preprocessing, cache: SampleCache) -> None:
        super().__init__(layout)
        self._preprocessing = preprocessing
        self.cache = cache

    def provenance(self, index: int) -> Provenance:
        """Return what the content of sample `index` depends on: that of the layout, and the rule of resizing."""
        provenance = self._layout.provenance(index)
        return replace(provenance, rule=f"{_FORMAT} {provenance.rule} {self._preprocessing.size_rule}")

    def read(self, index: int) -> Sample:
        """Read sample `index`, resized; see Layout."""
        provenance, name = self.provenance(index), self.names[index]
        by_state = provenance.state_key()
        cached = self.cache.read(by_state, name)
        if cached is not None:
            return cached
        by_content = provenance.content_key()
        sample = self.cache.read(by_content, name) or self.resized(index)
        if provenance.state_key() == by_state:  # otherwise a file may have changed between hashing and decoding
            self.cache.keep(sample, by_content=by_content, by_state=by_state)
        return sample

    def resized(self, index: int) -> Sample:
        """Read sample `index`, resized, without the cache; raises as `read`."""
        sample = self._layout.read(index)
        return place(sample, self._preprocessing.whole(sample), source_is_ids=self.n_classes > 0)


def room(layout: Layout, index: int) -> tuple[int, int]:
    """Return the bytes of all samples in the cache, if those of a side are as large as in sample `index`, and the free.

    layout: whose sides are CachedLayouts.

    Raises:
        DataError: the sample cannot be read.
    """
    places = [(side, place) for side, place in layout.places(index) if isinstance(side, CachedLayout)]
    needed = sum(len(side) * _n_bytes(side.resized(place)) for side, place in places)
    return needed, places[0][0].cache.free_bytes()


def _age_s(time_ns: int) -> float:
    return (time.time_ns() - time_ns) / 1e9


def _n_bytes(sample: Sample) -> int:
    return sum(tensor.nbytes for tensor in sample.maps.values())
