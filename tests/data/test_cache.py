import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest
import torch

import data.layout
import data.map_reader
from configs import build, sample_cache
from configs.load import load_config
from configs.schema import Config
from data.batch import Sample
from data.cache import CachedLayout, SampleCache
from data.layout import Layout
from data.loader import TrainingDataset
from data.sampler import SampleKey
from data.store import Blob, File
from tests.conftest import save_image
from tests.limits import only_so_many_files
from tests.runs import assert_equal

SETTINGS = ["data.layout=paired_folders", "data.n_classes=5", "data.flip=true"]
PREPROCESS = [
    ["data.preprocess=resize_and_crop", "data.load_width=80", "data.load_height=48", "data.crop_width=32"],
    ["data.preprocess=scale_width", "data.load_width=48"],
    ["data.preprocess=scale_width_and_crop", "data.load_width=80", "data.crop_width=64", "data.crop_height=32"],
    ["data.preprocess=crop", "data.crop_width=32", "data.crop_height=32"],
    ["data.preprocess=none"],
]
AUGMENTED = [
    "data.preprocess=crop",
    "data.crop_width=32",
    "data.augment.scale=[0.7,1.4]",
    "data.augment.elastic=[0,0.1]",
]


def settings(root: Path, *more: str) -> list[str]:
    return [*SETTINGS, f"data.root={root}", "data.crop_height=32", *more]


def layouts(config: Config, folder: Path) -> tuple[Layout, CachedLayout]:
    plain = build.build_layout(config, "train", needs_targets=True)
    return plain, CachedLayout(plain, build.build_preprocessing(config), SampleCache(folder))


def kept(folder: Path) -> set[int]:
    """Return the files of a cache by their inodes, which all names of a file share."""
    return {path.stat().st_ino for path in folder.rglob("*.pt")}


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the file system have room for two samples."""

    def usage(_: Path) -> SimpleNamespace:
        files = {path.stat().st_ino: path.stat().st_size for path in tmp_path.rglob("*.pt*")}
        return SimpleNamespace(total=0, free=60_000 - sum(files.values()))

    monkeypatch.setattr(shutil, "disk_usage", usage)


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


@pytest.mark.parametrize("preprocess", [*PREPROCESS, AUGMENTED], ids=lambda preprocess: preprocess[-1])
def test_samples_from_the_cache_equal_those_from_the_files(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, reads: list[Path], preprocess: list[str]
) -> None:
    config = load_config(tiny_config, settings(label_data_set, *preprocess))
    plain, cached = layouts(config, tmp_path / "cache")
    preprocessing = build.build_preprocessing(config)
    for epoch in range(3):
        for index in range(len(plain)):
            key = SampleKey(epoch, index)
            expected, found = (TrainingDataset(layout, preprocessing, 0)[key] for layout in (plain, cached))
            assert_equal(vars(found), vars(expected))
    assert len(reads) == 3 * 3 + 3  # plain samples are decoded each time, cached ones once


def test_a_changed_file_is_read_again(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, reads: list[Path]
) -> None:
    _, cached = layouts(load_config(tiny_config, settings(label_data_set)), tmp_path / "cache")
    before = cached.read(0)
    save_image(label_data_set / "train_img" / "a.jpg", torch.zeros(32, 64, 3, dtype=torch.uint8).numpy())
    after = cached.read(0)
    assert len(reads) == 2
    assert before.target is not None
    assert after.target is not None
    assert before.target.any()
    assert not after.target.any()


def test_a_replaced_file_of_equal_size_and_time_is_read_again(
    tiny_config: Path, label_data_set: Path, tmp_path: Path
) -> None:
    photo, other = label_data_set / "train_img" / "a.jpg", tmp_path / "other.bmp"
    pixels = torch.zeros(32, 64, 3, dtype=torch.uint8).numpy()
    for path, level in ((other, 9), (photo.with_suffix(".bmp"), 5)):  # BMP is not compressed: the sizes are equal
        save_image(path, pixels + level)
    photo.with_suffix(".bmp").rename(photo)
    _, cached = layouts(load_config(tiny_config, settings(label_data_set)), tmp_path / "cache")
    before = cached.read(0).target
    shutil.copystat(photo, other)
    assert other.stat().st_size == photo.stat().st_size
    other.replace(photo)
    after = cached.read(0).target
    assert before is not None
    assert after is not None
    assert (int(before.max()), int(after.min())) == (5, 9)


@pytest.mark.parametrize("how", ["moved", "copied", "touched"])
def test_the_same_content_is_not_decoded_again(
    tiny_config: Path,
    label_data_set: Path,
    tmp_path: Path,
    reads: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    _, cached = layouts(load_config(tiny_config, settings(label_data_set)), tmp_path / "cache")
    expected = [cached.read(index) for index in range(3)]
    root = label_data_set if how == "touched" else tmp_path / "elsewhere"
    match how:
        case "moved":
            label_data_set.rename(root)
        case "copied":
            shutil.copytree(label_data_set, root)
        case "touched":
            for path in root.rglob("*.*"):
                os.utime(path, (1, 1))
    _, cached = layouts(load_config(tiny_config, settings(root)), tmp_path / "cache")
    for index in range(3):
        assert_equal(vars(cached.read(index)), vars(expected[index]))
    monkeypatch.setattr(Blob, "digest", None)  # a second read needs only the state of the files
    for index in range(3):
        assert_equal(vars(cached.read(index)), vars(expected[index]))
    assert len(reads) == 3
    assert len(kept(tmp_path / "cache")) == 3


def test_samples_of_equal_content_share_a_file(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, reads: list[Path]
) -> None:
    for file in label_data_set.glob("train_*/a.*"):
        shutil.copy(file, file.with_stem("b"))
    _, cached = layouts(load_config(tiny_config, settings(label_data_set)), tmp_path / "cache")
    samples = [cached.read(index) for index in (0, 1)]
    assert [sample.name for sample in samples] == ["a", "b"]
    assert len(reads) == len(kept(tmp_path / "cache")) == 1


def test_equal_files_in_other_roles_are_other_samples(tiny_config: Path, tmp_path: Path) -> None:
    for number, folders in enumerate((["train_A", "train_B"], ["train_B", "train_A"])):
        for level, folder in enumerate(folders):
            save_image(tmp_path / str(number) / folder / "x.png", torch.full((32, 32, 3), level).byte().numpy())
    pairs = ["data.layout=paired_folders", "data.n_classes=0", "data.instance_edges=false"]
    levels = []
    for number in range(2):
        _, cached = layouts(load_config(tiny_config, [*pairs, f"data.root={tmp_path / str(number)}"]), tmp_path / "c")
        sample = cached.read(0)
        assert sample.target is not None
        levels.append((int(sample.source.max()), int(sample.target.max())))
    assert levels == [(0, 1), (1, 0)]


def test_a_file_replaced_between_hashing_and_decoding_is_not_kept(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_rgb = data.map_reader.read_rgb

    def replace_and_read(file: File) -> torch.Tensor:
        save_image(Path(str(file)), torch.zeros(32, 64, 3, dtype=torch.uint8).numpy())
        return read_rgb(file)

    _, cached = layouts(load_config(tiny_config, settings(label_data_set)), tmp_path / "cache")
    with monkeypatch.context() as patch:
        patch.setattr(data.map_reader, "read_rgb", replace_and_read)
        cached.read(0)
    assert not kept(tmp_path / "cache")
    cached.read(0)
    assert len(kept(tmp_path / "cache")) == 1


def test_without_hard_links_files_are_found_by_their_state(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(target))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    _, cached = layouts(load_config(tiny_config, settings(label_data_set)), tmp_path / "cache")
    samples = [cached.read(index) for index in (0, 1, 2)]
    assert_equal([vars(cached.read(index)) for index in (0, 1, 2)], [vars(sample) for sample in samples])
    assert len(reads) == 3
    os.utime(label_data_set / "train_img" / "a.jpg", (1, 1))
    assert_equal(vars(cached.read(0)), vars(samples[0]))
    assert len(reads) == 4
    assert len([path for path in (tmp_path / "cache").rglob("*") if path.is_file()]) == 4


def test_other_settings_have_samples_of_their_own(tiny_config: Path, label_data_set: Path, tmp_path: Path) -> None:
    rules = set()
    for preprocess in PREPROCESS:
        for more in ([], ["data.ignore_id=255"], ["data.instance_edges=false"]):
            config = load_config(tiny_config, settings(label_data_set, *preprocess, *more))
            rules.add(layouts(config, tmp_path)[1].origin(0).rule)
    assert len(rules) == 3 * len(PREPROCESS)
    augmented = load_config(tiny_config, settings(label_data_set, *AUGMENTED))
    assert layouts(augmented, tmp_path)[1].origin(0).rule in rules  # a cache serves runs with and without it


def test_a_damaged_file_is_written_again(tiny_config: Path, label_data_set: Path, tmp_path: Path) -> None:
    _, cached = layouts(load_config(tiny_config, settings(label_data_set)), tmp_path / "cache")
    expected = cached.read(0)
    names = sorted((tmp_path / "cache").rglob("*.pt"))
    for content in (b"", b"junk", names[0].read_bytes()[:200]):
        names[0].write_bytes(content)
        assert_equal(vars(cached.read(0)), vars(expected))
        assert sorted((tmp_path / "cache").rglob("*.pt")) == names
        assert len(kept(tmp_path / "cache")) == 1
        assert names[1].stat().st_size > 1000


def test_a_failed_write_leaves_nothing(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_the_disk(_maps: object, file: IO[bytes]) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    _, cached = layouts(load_config(tiny_config, settings(label_data_set)), tmp_path / "cache")
    monkeypatch.setattr("data.cache.torch.save", fill_the_disk)
    assert cached.read(0).target is not None
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


@pytest.mark.usefixtures("small_disk")
def test_it_holds_no_more_than_it_may(tiny_config: Path, label_data_set: Path, tmp_path: Path) -> None:
    config = load_config(tiny_config, settings(label_data_set))
    _, cached = layouts(config, tmp_path / "cache")
    samples = [cached.read(index) for index in range(3)]
    assert len(kept(tmp_path / "cache")) == 2
    assert_equal(vars(cached.read(2)), vars(samples[2]))


@pytest.mark.usefixtures("small_disk")
@pytest.mark.parametrize("order", [(2, 2, 0), (0, 2, 2)])
def test_unused_files_make_room(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, reads: list[Path], order: tuple[int, ...]
) -> None:
    folder = tmp_path / "cache"
    config = load_config(tiny_config, settings(label_data_set))
    _, earlier = layouts(config, folder)
    expected, mapped = [earlier.read(1) for _ in range(2)]
    days_ago = time.time() - 2 * 24 * 3600
    for path in folder.rglob("*.pt"):
        os.utime(path, (days_ago, days_ago))
    earlier.read(0)
    others = [folder / "mine.txt", folder / "ab" / "mine.pt", next(folder.rglob("*.pt")).with_suffix(".pt.0.writing")]
    for other in others:
        other.parent.mkdir(exist_ok=True)
        other.touch()
    _, later = layouts(config, folder)
    for index in order:
        later.read(index)
    assert len(reads) == 3  # 2 replaced 1, the longest unused
    for index in (1, 0, 2):
        later.read(index)
    assert len(reads) == 4  # 1 is read again and not kept: the others are in use
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 2 * 2 + len(others)
    assert all(other.exists() for other in others)
    assert_equal(vars(mapped), vars(expected))


@pytest.mark.usefixtures("small_disk")
def test_runs_that_share_a_full_cache_leave_each_other_what_they_use(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, reads: list[Path]
) -> None:
    config = load_config(tiny_config, settings(label_data_set))
    decoded: list[Path] = []
    for _ in range(3):  # runs one after the other, or the same one resumed
        _, cached = layouts(config, tmp_path / "cache")
        reads.clear()
        for index in (2, 1, 0, 2, 1, 0):
            cached.read(index)
        decoded = list(reads)
        assert cached.estimate(0).n_fitting == 2
    assert decoded == [label_data_set / "train_img" / "a.jpg"] * 2  # there was never room for it
    _, cached = layouts(config, tmp_path / "cache")
    other = load_config(tiny_config, settings(label_data_set, "data.ignore_id=255"))
    assert layouts(other, tmp_path / "cache")[1].estimate(0).n_fitting == 0


@pytest.mark.usefixtures("small_disk")
def test_the_estimate_counts_a_file_that_has_long_been_unused_once(
    tiny_config: Path, label_data_set: Path, tmp_path: Path
) -> None:
    _, cached = layouts(load_config(tiny_config, settings(label_data_set)), tmp_path / "cache")
    for index in range(3):
        cached.read(index)
    long_ago = time.time() - 48 * 3600
    for path in (tmp_path / "cache").rglob("*.pt"):
        os.utime(path, (long_ago, long_ago))
    assert cached.estimate(0).n_fitting == 2


def test_the_use_of_a_file_is_recorded_each_hour(tiny_config: Path, label_data_set: Path, tmp_path: Path) -> None:
    _, cached = layouts(load_config(tiny_config, settings(label_data_set)), tmp_path / "cache")
    cached.read(0)
    (path, _) = (tmp_path / "cache").rglob("*.pt")
    for hours, is_noted in ((0.5, False), (2, True)):
        then = time.time() - hours * 3600
        os.utime(path, (then, then))
        cached.read(0)
        assert (path.stat().st_mtime > then + 1) == is_noted


@pytest.mark.parametrize(
    ("kind", "free_share", "is_kept"),
    [("memory", 0.4, False), ("memory", 0.6, True), ("disk", 0.05, False), ("disk", 0.2, True)],
)
def test_room_is_left_to_batches_and_checkpoints(
    tiny_config: Path,
    label_data_set: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    free_share: float,
    is_kept: bool,
) -> None:
    total = 2**30
    usage = SimpleNamespace(total=total, used=0, free=int(free_share * total))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(sample_cache, "_SHARED_MEMORY", tmp_path)
    config = load_config(tiny_config, settings(label_data_set, f"data.cache={kind if kind == 'memory' else tmp_path}"))
    layout = sample_cache.build_training_layout(
        config, build.build_layout(config, "train", needs_targets=True), tmp_path / "run"
    )
    layout.read(0)
    assert bool(list(tmp_path.rglob("*.pt"))) == is_kept


def test_a_file_that_cannot_be_read_now_is_kept(tmp_path: Path) -> None:
    cache, key = SampleCache(tmp_path), "0" * 64
    cache.keep(Sample("a", torch.zeros(1, 2, 2), None, None), by_content=key, by_state="1" * 64)
    with only_so_many_files(1):
        assert cache.read(key, "a") is None
    assert cache.read(key, "a") is not None
