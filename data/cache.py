"""A cache of decoded and resized samples for later epochs."""

import os
import shutil
import time
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
_HOUR_S, _DAY_S = 3600, 24 * 3600


class SampleCache:
    """Files of uint8 and id maps in one folder for all processes and runs.

    The modification time of a file is the time of its last use, to the hour. If there is no room for another sample,
    files that no run has used for a day are removed, and what killed processes have not finished. Files in use stay: if
    a data set is too large, each would be removed before it is needed again.

    folder: Created when the first sample is kept.
    spare_share: Share of the file system that stays free for checkpoints, or for batches in shared memory. Processes
        that write at the same time may take a few samples of it.
    """

    def __init__(self, folder: Path, *, spare_share: float = 0.0) -> None:
        self._folder = folder
        self._spare_share = spare_share
        self._swept_s = -float(_HOUR_S)

    def read(self, key: str, name: str) -> Sample | None:
        """Return the sample of a key, or None if there is none or its file is damaged."""
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
            if _age_s(path) > _HOUR_S:  # file systems often record no times of access
                os.utime(path)
        return sample

    def keep(self, key: str, sample: Sample) -> None:
        """Keep a sample, if there is room. Its file appears only once it is complete."""
        path = self._path(key)
        unfinished = path.with_name(f"{path.name}.{uuid4().hex}{_WRITING}")
        with suppress(OSError, RuntimeError):  # a full disk: the sample is decoded again next time
            if self._has_room(_n_bytes(sample)):
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    with unfinished.open("wb") as file:
                        torch.save({kind: getattr(sample, kind) for kind in MAPS}, file)
                    unfinished.replace(path)
                finally:
                    unfinished.unlink(missing_ok=True)

    def free_bytes(self) -> int:
        """Return the bytes of the file system that the cache may still take."""
        for folder in (self._folder, *self._folder.parents):  # the folder itself may not exist yet
            with suppress(OSError):
                disk = shutil.disk_usage(folder)
                return max(disk.free - int(self._spare_share * disk.total), 0)
        return 0

    def _has_room(self, n_bytes: int) -> bool:
        """Return whether there is room for a sample; if not, remove unused files, once an hour."""
        if self.free_bytes() < n_bytes and time.monotonic() - self._swept_s >= _HOUR_S:
            self._swept_s = time.monotonic()
            for path in self._folder.glob(_NAMES):
                with suppress(OSError):  # another process has removed or renamed it
                    if _age_s(path) > (_HOUR_S if path.suffix == _WRITING else _DAY_S):
                        path.unlink()
        return self.free_bytes() >= n_bytes

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
        """Return what the content of sample `index` depends on, including the settings of resizing."""
        provenance = self._layout.provenance(index)
        return replace(provenance, rule=f"{_FORMAT} {provenance.rule} {self._preprocessing.size_rule}")

    def read(self, index: int) -> Sample:
        """Read sample `index`, resized; see Layout."""
        provenance = self.provenance(index)
        key = provenance.key()
        sample = self.cache.read(key, self.names[index])
        if sample is None:
            sample = self.resized(index)
            if provenance.key() == key:  # otherwise a file may have changed before it was decoded
                self.cache.keep(key, sample)
        return sample

    def resized(self, index: int) -> Sample:
        """Read sample `index`, resized, without the cache; raises as `read`."""
        sample = self._layout.read(index)
        return place(sample, self._preprocessing.whole(sample), source_is_ids=self.n_classes > 0)


def room(layout: Layout, index: int) -> tuple[int, int]:
    """Return the bytes that all samples take in the cache, estimated from sample `index`, and the free bytes.

    layout: A layout of CachedLayouts.

    Raises:
        DataError: the sample cannot be read.
    """
    places = [(side, place) for side, place in layout.places(index) if isinstance(side, CachedLayout)]
    needed = sum(len(side) * _n_bytes(side.resized(place)) for side, place in places)
    return needed, places[0][0].cache.free_bytes()


def _age_s(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def _n_bytes(sample: Sample) -> int:
    return sum(tensor.nbytes for tensor in sample.maps.values())
