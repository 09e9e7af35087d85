import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
import torch

import data.map_reader
from configs import build, splits
from configs.load import load_config
from configs.splits import open_split, training_split
from data.batch import Sample
from data.cache import CachedLayout, SampleCache
from data.folder import File
from data.loader import SampleKey, TrainingDataset
from tests.conftest import save_image
from tests.limits import only_so_many_files
from tests.runs import assert_equal

SETTINGS = ["data.layout=paired_folders", "data.n_classes=5", "data.flip=true", "data.crop_height=32"]
PREPROCESS = [
    ["data.preprocess=resize_and_crop", "data.load_width=80", "data.load_height=48", "data.crop_width=32"],
    ["data.preprocess=scale_width_and_crop", "data.load_width=80", "data.crop_width=64", "data.crop_height=32"],
    ["data.preprocess=crop", "data.crop_width=32", "data.crop_height=32"],
    ["data.preprocess=none"],
]
AUGMENTED = [*PREPROCESS[2], "data.zoom=[0.7,1.4]", "data.elastic=[0,0.1]"]
BLACK = torch.zeros(32, 64, 3, dtype=torch.uint8).numpy()

Open = Callable[..., CachedLayout]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the cache."""
    return tmp_path / "cache"


@pytest.fixture
def open_cached(tiny_config: Path, label_data_set: Path, folder: Path) -> Open:
    """Open the training split as a run with these settings does."""

    def open_layout(*more: str) -> CachedLayout:
        config = load_config(tiny_config, [*SETTINGS, f"data.root={label_data_set}", *more])
        layout = open_split(config, "train", needs_targets=True)
        return CachedLayout(layout, build.build_preprocessing(config), SampleCache(folder))

    return open_layout


@pytest.fixture
def cached(open_cached: Open) -> CachedLayout:
    return open_cached()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The paths of the photos that have been decoded."""
    decoded: list[Path] = []
    read_rgb = data.map_reader.read_rgb

    def read(file: File) -> torch.Tensor:
        decoded.append(Path(str(file)))
        return read_rgb(file)

    monkeypatch.setattr(data.map_reader, "read_rgb", read)
    return decoded


def files_of(folder: Path, pattern: str = "*") -> list[Path]:
    return sorted(path for path in folder.rglob(pattern) if path.is_file())


def kept(folder: Path) -> int:
    """Return the number of samples in a cache."""
    return len(files_of(folder, "*.pt"))


@pytest.mark.parametrize("preprocess", [PREPROCESS[1], AUGMENTED], ids=lambda preprocess: preprocess[-1])
def test_samples_from_the_cache_equal_those_from_the_files(
    open_cached: Open, reads: list[Path], preprocess: list[str]
) -> None:
    cached = open_cached(*preprocess)
    layouts, preprocessing = (cached._layout, cached), cached._preprocessing
    for epoch in range(3):
        for index in range(3):
            expected, found = (TrainingDataset(layout, preprocessing, 0)[SampleKey(epoch, index)] for layout in layouts)
            assert_equal(vars(found), vars(expected))
    assert len(reads) == 3 * 3 + 3  # plain samples are decoded each time, cached ones once


def test_a_replaced_file_of_equal_size_and_time_is_read_again(cached: CachedLayout, label_data_set: Path) -> None:
    photo = label_data_set / "train_img" / "a.jpg"
    other = photo.with_name("other.bmp")
    for path, level in ((other, 9), (photo.with_suffix(".bmp"), 5)):  # BMP is not compressed: the sizes are equal
        save_image(path, BLACK + level)
    photo.with_suffix(".bmp").rename(photo)
    assert vars(cached.read(0))["target"].unique().tolist() == [5]
    shutil.copystat(photo, other)
    assert other.stat().st_size == photo.stat().st_size
    other.replace(photo)
    assert vars(cached.read(0))["target"].unique().tolist() == [9]


def test_a_file_replaced_between_hashing_and_decoding_is_not_kept(
    cached: CachedLayout, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_rgb = data.map_reader.read_rgb

    def replace_and_read(file: File) -> torch.Tensor:
        save_image(Path(str(file)), BLACK)
        return read_rgb(file)

    with monkeypatch.context() as patch:
        patch.setattr(data.map_reader, "read_rgb", replace_and_read)
        cached.read(0)
    assert kept(folder) == 0
    cached.read(0)
    assert kept(folder) == 1


def test_other_settings_have_samples_of_their_own(open_cached: Open) -> None:
    settings = [*PREPROCESS, [*PREPROCESS[-1], "data.ignore_id=255"], [*PREPROCESS[-1], "data.instance_edges=false"]]
    rules = {open_cached(*setting).provenance(0).rule for setting in settings}
    assert len(rules) == len(settings)
    assert open_cached(*AUGMENTED).provenance(0).rule in rules  # a cache serves runs with and without it


def test_a_damaged_file_is_written_again(cached: CachedLayout, folder: Path) -> None:
    expected = vars(cached.read(0))
    (file,) = files_of(folder)
    for content in (b"", b"junk", file.read_bytes()[:200]):
        file.write_bytes(content)
        assert_equal(vars(cached.read(0)), expected)
        assert files_of(folder) == [file]
        assert file.stat().st_size > 1000


def test_a_failed_write_leaves_nothing(cached: CachedLayout, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_the_disk(_maps: object, file: IO[bytes]) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("data.cache.torch.save", fill_the_disk)
    assert cached.read(0).target is not None
    assert files_of(folder) == []


def test_a_sample_outlives_its_file(open_cached: Open, folder: Path) -> None:
    expected, cached = [open_cached().read(0) for _ in range(2)]
    assert str(folder) not in Path("/proc/self/maps").read_text()  # otherwise the next lines end by SIGBUS
    for path in files_of(folder):
        os.truncate(path, 0)
    assert_equal(vars(cached), vars(expected))


def test_a_full_cache_keeps_its_samples(
    open_cached: Open, folder: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(_: Path) -> SimpleNamespace:
        """A file system that has room for two samples."""
        sizes = {path.stat().st_ino: path.stat().st_size for path in folder.rglob("*.pt*")}
        return SimpleNamespace(total=0, free=40_000 - sum(sizes.values()))

    monkeypatch.setattr(shutil, "disk_usage", usage)
    for _ in range(2):  # the second run has the samples of the first
        cached = open_cached()
        reads.clear()
        for index in (2, 1, 0, 2, 1, 0):
            cached.read(index)
        assert kept(folder) == 2
    assert [path.name for path in reads] == ["a.jpg"] * 2  # there was no room for it


def test_room_is_left_to_batches_and_checkpoints(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "SHARED_MEMORY", tmp_path)
    for cache, free, is_kept in (("memory", 0.4, False), (str(tmp_path), 0.2, True)):  # GiB of 1 GiB
        usage = SimpleNamespace(total=2**30, used=0, free=int(free * 2**30))
        monkeypatch.setattr(shutil, "disk_usage", lambda _, usage=usage: usage)
        config = load_config(tiny_config, [*SETTINGS, f"data.root={label_data_set}", f"data.cache={cache}"])
        training_split(config, open_split(config, "train", needs_targets=True), tmp_path / "run").read(0)
        assert (kept(tmp_path) > 0) == is_kept


def test_a_file_that_cannot_be_read_now_is_kept(folder: Path) -> None:
    cache, key = SampleCache(folder), "0" * 64
    cache.write(key, Sample("a", source=torch.zeros(1, 2, 2)))
    with only_so_many_files(0):
        assert cache.read(key, "a") is None
    assert cache.read(key, "a") is not None


def test_all_maps_are_written_and_files_of_earlier_versions_lack_some(folder: Path) -> None:
    cache = SampleCache(folder)
    maps: dict[str, Any] = dict.fromkeys(("source", "instances", "target", "weights"), torch.ones(1, 4, 6))
    sample = Sample("x", **maps)
    cache.write("a" * 64, sample)
    assert_equal(vars(cache.read("a" * 64, "x")), vars(sample))
    (file,) = files_of(folder)
    maps = torch.load(file, weights_only=True)
    del maps["weights"]
    torch.save(maps, file)
    earlier = cache.read("a" * 64, "y")
    assert earlier is not None
    assert earlier.weights is None
