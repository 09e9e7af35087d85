"""A cache of decompressed volumes on a disk. Loader processes map its files into memory, and read single slices.

Reading a slice from a compressed volume would decompress the whole volume each time.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, Self

import numpy as np
from filelock import FileLock

from data.batch import DataError, LoadingError
from data.files.volume_file import Geometry, read_volume
from data.folder import LocalFile, LocalFolder
from utils.files import expanded, replacing
from utils.plain_values import read_json

Axis = Literal["axial", "coronal", "sagittal"]
AXES: tuple[Axis, ...] = ("axial", "coronal", "sagittal")
"""Names of the axes of an array (D, H, W) that is stored in LPS order."""
_FORMAT = 3  # version of the cache files, part of each key
_PERCENTILES = (0.1, 99.9)


class VolumeFile(LocalFile):
    """A volume on a local disk: a file, or the folder of a DICOM series."""

    def size(self) -> int:
        """Return the size of all files of the volume, in bytes; raise OSError like `open`."""
        return sum(file.size() for file in self._files())

    def state(self) -> str:
        """Return the states of all files of the volume, see LocalFile."""
        return " ".join(file.state() for file in self._files())

    def _files(self) -> list[LocalFile]:
        """Return the files of the series. The data file of a header has the same name."""
        if self.path.is_dir():
            return [LocalFile(LocalFolder(self.path), path.name) for path in sorted(self.path.iterdir())]
        paths = [self.path]
        if self.suffix.lower() in (".mhd", ".nhdr"):
            paths = [path for path in self.path.parent.iterdir() if path.name.startswith(f"{self.path.stem}.")]
        return [LocalFile(LocalFolder(path.parent), path.name) for path in sorted(paths)]


@dataclass(frozen=True)
class CachedVolume:
    """A volume in the cache.

    file: .npy file with the slices, (S, H, W).
    geometry: See Volume.
    orientation: Directions of the stored axes, such as "RAS", or "unknown".
    is_used: For each slice, whether it has more than one value. In masks: whether it has a value above 0.
    dtype: NumPy name of the values' type: uint8, uint16, int16 or float32.
    lowest, highest: Values of the volume.
    window: Percentiles 0.1 and 99.9 of all values above the lowest value. Padding has the lowest value.
    centre: Median of the middle half along each axis.
    border: Median of the front, back, left and right side.
    digest: Digest of all values in LPS order.
    """

    file: str
    geometry: Geometry
    orientation: str
    is_used: list[bool]
    dtype: str
    lowest: float
    highest: float
    window: tuple[float, float]
    centre: float
    border: float
    digest: str

    def slices(self) -> np.ndarray:
        """Return the slices, (S, H, W), mapped into memory. Raise LoadingError if the file is damaged or missing."""
        return _mapped(self.file)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read the description of a volume. Return None if this file or the .npy file is missing or damaged."""
        try:
            facts, file = read_json(path.read_text()), str(path.with_suffix(".npy"))  # the cache may have moved
            np.load(file, mmap_mode="r", allow_pickle=False)
            geometry = Geometry(**{key: tuple(value) for key, value in facts["geometry"].items()})
            return cls(**{**facts, "file": file, "geometry": geometry, "window": tuple(facts["window"])})
        except (OSError, EOFError, ValueError, TypeError, KeyError, AttributeError):
            return None


@lru_cache(maxsize=128)  # an open map needs a file descriptor
def _mapped(file: str) -> np.ndarray:
    try:
        return np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        raise LoadingError(f"{file}: is missing or damaged in the cache. Start again to rebuild it.") from error


def volume_folder(cache: str) -> Path:
    """Return the folder of the cache. A value of data.cache without a folder selects ~/.cache/pairgan."""
    named = cache if cache not in ("none", "memory", "disk") else "~/.cache/pairgan"
    return expanded(named, "data.cache") / "volumes"


def cached_volume(file: VolumeFile, folder: Path, axis: Axis, *, is_mask: bool = False) -> CachedVolume:
    """Return a volume from the cache, and add a missing volume to the cache. Other processes wait meanwhile.

    is_mask: Whether to store 1 for values above 0, and 0 otherwise.

    Raises:
        LoadingError: The cache cannot be written to, for example because the disk is full.
        DataError: The volume cannot be read.
    """
    try:
        state = f"{_FORMAT} {axis} {is_mask} {file.state()}"
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}") from error
    key = hashlib.sha256(state.encode("utf-8", "surrogateescape")).hexdigest()
    described = folder / key[:2] / f"{key[2:]}.json"
    try:
        described.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{key[:2]}.lock"):
            return CachedVolume.read(described) or _added(file, described, axis, is_mask)
    except OSError as error:
        remedy = "Free space there, or set data.cache to another folder."
        raise LoadingError(f"{folder}: cannot store {file}: {error.strerror}. {remedy}") from error


def _added(file: VolumeFile, described: Path, axis: Axis, is_mask: bool) -> CachedVolume:
    volume, stored = read_volume(file.path), described.with_suffix(".npy")
    array = (volume.array > 0).astype(np.uint8) if is_mask else volume.array
    slices = np.ascontiguousarray(np.moveaxis(array, AXES.index(axis), 0))
    with replacing(stored) as unfinished, unfinished.open("wb") as opened:
        np.lib.format.write_array_header_1_0(opened, np.lib.format.header_data_from_array_1_0(slices))
        opened.write(slices.data)  # np.save would hide that the disk is full
    _mapped.cache_clear()  # it may hold the map of a damaged file
    lowest, highest = (float(str(value)) for value in (array.min(), array.max()))  # str gives 0.1, not 0.10000000149
    flat = slices.reshape(len(slices), -1)
    cached = CachedVolume(
        file=str(stored),
        geometry=volume.geometry,
        orientation=volume.orientation if volume.has_orientation else "unknown",
        is_used=(flat.max(axis=1) > (0 if is_mask else flat.min(axis=1))).tolist(),
        dtype=str(array.dtype),
        lowest=lowest,
        highest=highest,
        window=value_window(array),
        centre=float(np.median(array[tuple(slice(size // 4, size - size // 4) for size in array.shape)])),
        border=float(np.median(np.concatenate([array[:, [0, -1]].ravel(), array[:, :, [0, -1]].ravel()]))),
        digest=hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).hexdigest(),
    )
    with replacing(described) as unfinished:
        unfinished.write_text(json.dumps(asdict(cached)))
    return cached


def value_window(array: np.ndarray) -> tuple[float, float]:
    """Return the percentiles 0.1 and 99.9, with six digits, of all values above the lowest value.

    Padding has the lowest value, so the percentiles do not depend on its size. If all values are equal, the result
    ends 1 above this value.
    """
    lowest = array.min()
    above = array[array > lowest]
    if not above.size:
        return float(lowest), float(lowest) + 1
    low, high = (float(f"{value:.6g}") for value in np.percentile(above, _PERCENTILES))
    return low, high if high > low else low + 1
