"""Volumes are decompressed once. A changed volume is read again, and a damaged cache is rebuilt."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
import pytest

import data.volume_cache
from data.batch import LoadingError
from data.files.volume_file import Volume, read_volume
from data.folder import LocalFolder
from data.volume_cache import AXES, Axis, CachedVolume, VolumeFile, cached_volume, value_window, volume_folder
from tests.limits import only_so_many_files
from tests.volumes import CASES, SERIES, noise, save_files, save_volume

RANGES = CASES["ranges"]


@pytest.fixture
def file(tmp_path: Path) -> VolumeFile:
    return file_of(save_volume(tmp_path / "A" / "p1.nii.gz", noise(0)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the cache."""
    return tmp_path / "cache"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The volumes that have been decompressed."""
    paths: list[Path] = []

    def read(path: Path) -> Volume:
        paths.append(path)
        return read_volume(path)

    monkeypatch.setattr(data.volume_cache, "read_volume", read)
    return paths


def file_of(path: Path) -> VolumeFile:
    return VolumeFile(LocalFolder(path.parent), path.name)


def files_of(folder: Path) -> list[str]:
    """The names of the cache's files that are not locks, without the digests."""
    return sorted(path.suffix for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")


def assert_holds(cached: CachedVolume, array: np.ndarray) -> None:
    np.testing.assert_array_equal(cached.slices(), array)
    assert cached.dtype == str(cached.slices().dtype)
    assert (cached.lowest, cached.highest) == (array.min(), array.max())


@pytest.mark.parametrize("axis", AXES)
def test_slices_come_first_and_a_second_opening_reads_no_volume(
    file: VolumeFile, folder: Path, reads: list[Path], axis: Axis
) -> None:
    first, again = (cached_volume(file, folder, axis) for _ in range(2))
    assert first == again
    assert reads == [file.path]
    assert_holds(first, np.moveaxis(noise(0), AXES.index(axis), 0))
    assert first.slices().flags.c_contiguous
    assert first.geometry == read_volume(file.path).geometry
    expected, moved = np.array(first.slices()), folder.rename(folder.with_name("moved"))
    assert_holds(cached_volume(file, moved, axis), expected)
    assert len(reads) == 1


def test_slices_are_described(folder: Path, tmp_path: Path) -> None:
    values = np.array([[1, 1], [0, 3], [-2, 0], [0, 0], [255, 255]], np.float32)[..., None].repeat(2, 2)
    file = file_of(save_volume(tmp_path / "m.mha", values))
    mask = cached_volume(file, folder, "axial", is_mask=True)
    assert_holds(mask, (values > 0).astype(np.uint8))
    assert mask.is_used == [True, True, False, False, True]
    plain = cached_volume(file, folder, "axial")
    assert_holds(plain, values)
    assert plain.is_used == [False, True, True, False, False]


def test_percentiles_leave_out_the_lowest_value() -> None:
    mr = RANGES["mr"].numpy()
    assert value_window(mr) == (RANGES["low"], RANGES["high"])
    assert value_window(np.pad(mr, 9)) == (RANGES["low"], RANGES["high"])
    assert value_window(np.full((2, 2), 7, np.int16)) == (7, 8)
    assert value_window(np.array([1, 5, 5], np.uint8)) == (5, 6)


@pytest.mark.parametrize("name", ["p1.nii.gz", "p1.mhd", "p[1].mhd", "p1"])
def test_a_changed_volume_is_read_again(tmp_path: Path, folder: Path, name: str) -> None:
    if name == "p1":
        path = save_files(tmp_path / name, SERIES["files"])
        changed = path / "im0.dcm"
    else:
        path = save_volume(tmp_path / name, noise(0))
        changed = path.with_suffix(".raw") if name.endswith(".mhd") else path
    file = file_of(path)
    before, size = cached_volume(file, folder, "axial"), file.size()
    assert size == sum(each.stat().st_size for each in (path.iterdir() if path.is_dir() else {path, changed}))
    content = changed.read_bytes()
    if name == "p1.nii.gz":
        save_volume(path, noise(1))
    else:
        changed.write_bytes(content[:-2] + bytes([content[-2] ^ 1, content[-1]]))
    os.utime(changed, ns=(0, 0))
    after = cached_volume(file, folder, "axial")
    assert after.file != before.file
    assert_holds(after, read_volume(path).array)
    assert not np.array_equal(after.slices(), before.slices())


def test_damaged_files_are_rebuilt(file: VolumeFile, folder: Path, reads: list[Path]) -> None:
    expected = cached_volume(file, folder, "axial")
    assert_holds(expected, noise(0))
    for suffix, content in ((".json", b""), (".json", b'{"file": 1}'), (".npy", b""), (".npy", None)):
        path = Path(expected.file).with_suffix(suffix)
        if content is None:
            path.write_bytes(path.read_bytes()[:-1])
        else:
            path.write_bytes(content)
        again = cached_volume(file, folder, "axial")
        assert again == expected
        assert_holds(again, noise(0))
    Path(expected.file).unlink()
    assert_holds(cached_volume(file, folder, "axial"), noise(0))
    assert len(reads) == 6
    assert files_of(folder) == [".json", ".npy"]


def test_a_file_that_vanishes_from_the_cache_is_named(file: VolumeFile, folder: Path) -> None:
    cached = cached_volume(file, folder, "axial")
    shutil.rmtree(folder)
    with pytest.raises(LoadingError, match=rf"^{cached.file}: is missing or damaged in the cache\. Start again to"):
        cached.slices()


def open_at_once(file: VolumeFile, folder: Path, start: Barrier, reads: list[Path], counts: SimpleQueue[int]) -> None:
    start.wait()
    assert_holds(cached_volume(file, folder, "axial"), noise(0))
    counts.put(len(reads))


def test_two_processes_at_once_read_a_volume_once(file: VolumeFile, folder: Path, reads: list[Path]) -> None:
    context = get_context("fork")
    start, counts = context.Barrier(2), context.SimpleQueue()
    processes = [context.Process(target=open_at_once, args=(file, folder, start, reads, counts)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert sorted(counts.get() for _ in processes) == [0, 1]
    assert files_of(folder) == [".json", ".npy"]


def test_a_full_disk_ends_in_one_line(file: VolumeFile, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def full(_path: Path) -> Iterator[Path]:
        yield Path("/dev/full")

    with monkeypatch.context() as patch:
        patch.setattr(data.volume_cache, "replacing", full)
        with pytest.raises(LoadingError) as error:
            cached_volume(file, folder, "axial")
    problem = "No space left on device. Free space there, or set data.cache to another folder."
    assert str(error.value) == f"{folder}: cannot store {file}: {problem}"
    assert files_of(folder) == []
    assert_holds(cached_volume(file, folder, "axial"), noise(0))


def test_open_maps_are_closed(tmp_path: Path, folder: Path) -> None:
    cached = cached_volume(file_of(save_volume(tmp_path / "p.mha", noise(0, (2, 2, 2)))), folder, "axial")
    for number in range(150):
        shutil.copy(cached.file, folder / f"{number}.npy")
    with only_so_many_files(135):
        for number in range(150):
            assert replace(cached, file=str(folder / f"{number}.npy")).slices().shape == (2, 2, 2)


def test_the_folder_follows_data_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert volume_folder("/scratch/cache") == Path("/scratch/cache/volumes")
    for place in ("none", "memory", "disk"):  # training needs random access, so volumes are always cached
        assert volume_folder(place) == tmp_path / ".cache" / "pairgan" / "volumes"
