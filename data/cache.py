"""A cache of decoded and resized samples for later epochs."""

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import torch

from data.batch import MAPS, Sample
from data.layout import DerivedLayout, Layout, Provenance
from data.preprocessing import Preprocessing, place
from utils.torch_private import is_system_error

_FORMAT = 2  # version of the files; part of the keys


class SampleCache:
    """Samples as files in one folder, for all processes and runs.

    A cache that is full keeps what it has.

    folder: Created when the first sample is written.
    spare_share: Share of the file system that stays free for checkpoints, or for other users of shared memory.
        Processes that write at the same time may take a few samples of it.
    """

    def __init__(self, folder: Path, *, spare_share: float = 0.0) -> None:
        self._folder = folder
        self._spare_share = spare_share

    def read(self, key: str, name: str) -> Sample | None:
        """Return the sample of a key, or None if there is none or its file is damaged."""
        path = self._path(key)
        try:
            maps = torch.load(path, weights_only=True)  # not memory-mapped: if such a file is truncated, SIGBUS follows
            return Sample(name, **{kind: maps[kind] for kind in MAPS if kind in maps})  # earlier versions have fewer
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001  a damaged file can raise anything; its sample is decoded again
            if not is_system_error(error):
                with suppress(OSError):
                    path.unlink()
            return None

    def write(self, key: str, sample: Sample) -> None:
        """Write a sample, if there is room. Its file appears only once it is complete."""
        path = self._path(key)
        incomplete = path.with_name(f"{path.name}.{uuid4().hex}.writing")
        with suppress(OSError, RuntimeError):  # a full disk: the sample is decoded again next time
            if self.free_bytes() >= _n_bytes(sample):
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    with incomplete.open("wb") as file:
                        torch.save({kind: getattr(sample, kind) for kind in MAPS}, file)
                    incomplete.replace(path)
                finally:
                    incomplete.unlink(missing_ok=True)

    def free_bytes(self) -> int:
        """Return the bytes of the file system that the cache may still take."""
        folder = next(folder for folder in (self._folder, *self._folder.parents) if folder.exists())
        disk = shutil.disk_usage(folder)
        return max(disk.free - int(self._spare_share * disk.total), 0)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.pt"


class CachedLayout(DerivedLayout):
    """A layout whose samples are resized for training, and read from the cache if they are in it.

    Only the part of preprocessing that is not random is cached. Cropping and mirroring follow.
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
                self.cache.write(key, sample)
        return sample

    def resized(self, index: int) -> Sample:
        """Read sample `index`, resized, without the cache; raises as `read`."""
        sample = self._layout.read(index)
        return place(sample, self._preprocessing.whole(sample), source_is_ids=self.n_classes > 0)


def room(layout: Layout, index: int) -> tuple[int, int]:
    """Return the bytes that all samples take in the cache, estimated from sample `index`, and the free bytes.

    layout: A layout of CachedLayouts.

    Raises:
        DataError: The sample cannot be read.
    """
    places = [(side, place) for side, place in layout.places(index) if isinstance(side, CachedLayout)]
    needed = sum(len(side) * _n_bytes(side.resized(place)) for side, place in places)
    return needed, places[0][0].cache.free_bytes()


def _n_bytes(sample: Sample) -> int:
    return sum(tensor.nbytes for tensor in sample.maps.values())
