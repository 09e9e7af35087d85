"""A cache of decoded and resized samples, so that later epochs do not decode them again."""

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

_FORMAT = 2  # version of the cache files, part of each key


class SampleCache:
    """A folder with one file for each cached sample. All processes and runs share the folder.

    If the disk space is used up, the cache neither adds nor removes samples.

    folder: Folder of the cache, created when the first sample is written.
    spare_share: Fraction of the disk, 0 to 1, that the cache leaves free. Parallel writers can leave slightly less.
    """

    def __init__(self, folder: Path, *, spare_share: float = 0.0) -> None:
        self._folder = folder
        self._spare_share = spare_share

    def read(self, key: str, name: str) -> Sample | None:
        """Return the cached sample of a key, or None if its file is missing or damaged."""
        path = self._path(key)
        try:
            maps = torch.load(path, weights_only=True)  # not memory-mapped, because a truncated file would cause SIGBUS
            return Sample(name, **{kind: maps[kind] for kind in MAPS if kind in maps})  # older files have fewer maps
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001  a damaged file can raise any error
            if not is_system_error(error):
                with suppress(OSError):
                    path.unlink()
            return None

    def write(self, key: str, sample: Sample) -> None:
        """Write a sample if there is enough space. Other processes never see an incomplete file."""
        path = self._path(key)
        incomplete = path.with_name(f"{path.name}.{uuid4().hex}.writing")
        with suppress(OSError, RuntimeError):  # if the disk is full, the sample stays uncached
            if self.free_bytes() >= _n_bytes(sample):
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    with incomplete.open("wb") as file:
                        torch.save({kind: getattr(sample, kind) for kind in MAPS}, file)
                    incomplete.replace(path)
                finally:
                    incomplete.unlink(missing_ok=True)

    def free_bytes(self) -> int:
        """Return how many more bytes the cache can use."""
        folder = next(folder for folder in (self._folder, *self._folder.parents) if folder.exists())
        disk = shutil.disk_usage(folder)
        return max(disk.free - int(self._spare_share * disk.total), 0)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.pt"


class CachedLayout(DerivedLayout):
    """A layout that reads resized samples from a cache, and adds missing samples to the cache.

    Random cropping and mirroring are not cached. They are applied to the samples that this layout returns.
    """

    def __init__(self, layout: Layout, preprocessing: Preprocessing, cache: SampleCache) -> None:
        super().__init__(layout)
        self._preprocessing = preprocessing
        self.cache = cache

    def provenance(self, index: int) -> Provenance:
        """Return the files and settings that determine sample `index`, including the resize settings."""
        provenance = self._layout.provenance(index)
        return replace(provenance, rule=f"{_FORMAT} {provenance.rule} {self._preprocessing.size_rule}")

    def read(self, index: int) -> Sample:
        """Return the resized sample `index`, from the cache if possible; see Layout."""
        provenance = self.provenance(index)
        key = provenance.key()
        sample = self.cache.read(key, self.names[index])
        if sample is None:
            sample = self.resized(index)
            if provenance.key() == key:  # otherwise a file changed during reading
                self.cache.write(key, sample)
        return sample

    def resized(self, index: int) -> Sample:
        """Read sample `index` from its files, not from the cache, and resize it; raise DataError like `read`."""
        sample = self._layout.read(index)
        return place(sample, self._preprocessing.whole(sample), source_is_ids=self.n_classes > 0)


def room(layout: Layout, index: int) -> tuple[int, int]:
    """Estimate from sample `index` how large a cache of all samples is. Return this size and the free space in bytes.

    layout: Layout whose `sides` are CachedLayouts.

    Raises:
        DataError: The sample cannot be read.
    """
    places = [(side, place) for side, place in layout.places(index) if isinstance(side, CachedLayout)]
    needed = sum(len(side) * _n_bytes(side.resized(place)) for side, place in places)
    return needed, places[0][0].cache.free_bytes()


def _n_bytes(sample: Sample) -> int:
    return sum(tensor.nbytes for tensor in sample.maps.values())
