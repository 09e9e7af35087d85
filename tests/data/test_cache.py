import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest
import torch

import build
import data.sample_maps
from configs.load import load_config
from configs.schema import Config
from data.cache import CachedLayout, SampleCache
from data.layout import Layout
from data.loader import TrainingDataset
from data.sampler import SampleKey
from tests.conftest import save_image
from tests.runs import assert_equal, checkpoint, run, without_config
from tools import clear_cache

SETTINGS = ["data.layout=paired_folders", "data.n_classes=5", "data.flip=true"]
PREPROCESS = [
    ["data.preprocess=resize_and_crop", "data.load_width=80", "data.load_height=48", "data.crop_width=32"],
    ["data.preprocess=scale_width", "data.load_width=48"],
    ["data.preprocess=scale_width_and_crop", "data.load_width=80", "data.crop_width=64", "data.crop_height=32"],
    ["data.preprocess=crop", "data.crop_width=32", "data.crop_height=32"],
    ["data.preprocess=none"],
]


def settings(root: Path, *more: str) -> list[str]:
    return [*SETTINGS, f"data.root={root}", "data.crop_height=32", *more]


def layouts(config: Config, folder: Path, max_bytes: int = 2**30) -> tuple[Layout, CachedLayout]:
    plain = build.build_layout(config, "train", needs_targets=True)
    return plain, CachedLayout(plain, build.build_preprocessing(config), SampleCache(folder, max_bytes))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The photos that are decoded."""
    decoded: list[Path] = []
    read_rgb = data.sample_maps.read_rgb

    def read(path: Path) -> torch.Tensor:
        decoded.append(path)
        return read_rgb(path)

    monkeypatch.setattr(data.sample_maps, "read_rgb", read)
    return decoded


@pytest.mark.parametrize("preprocess", PREPROCESS, ids=lambda preprocess: preprocess[0])
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
    assert len(reads) == 3 * 3 + 3  # the plain ones each time, the others once


def test_a_changed_file_is_read_anew(
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


def test_other_settings_have_samples_of_their_own(tiny_config: Path, label_data_set: Path, tmp_path: Path) -> None:
    keys = set()
    for preprocess in PREPROCESS:
        for more in ([], ["data.ignore_id=255"], ["data.instance_edges=false"]):
            config = load_config(tiny_config, settings(label_data_set, *preprocess, *more))
            keys.add(layouts(config, tmp_path)[1].identity(0))
    assert len(keys) == 3 * len(PREPROCESS)


def test_a_damaged_file_is_made_again(tiny_config: Path, label_data_set: Path, tmp_path: Path) -> None:
    _, cached = layouts(load_config(tiny_config, settings(label_data_set)), tmp_path / "cache")
    expected = cached.read(0)
    (file,) = (tmp_path / "cache").rglob("*.pt")
    for content in (b"", b"junk", file.read_bytes()[:200]):
        file.write_bytes(content)
        assert_equal(vars(cached.read(0)), vars(expected))
        assert file.stat().st_size > 1000


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


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_folder_that_cannot_be_used_ends_in_one_line(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, workers: str
) -> None:
    (tmp_path / "file").touch()
    arguments = settings(label_data_set, "data.cache=disk", f"data.cache_folder={tmp_path / 'file'}")
    command = [sys.executable, "train.py", "--config", str(tiny_config), *arguments, f"data.workers={workers}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert re.fullmatch(r"error: data\.cache, data\.cache_folder: cannot make .*\n", result.stderr)


def test_it_holds_no_more_than_it_may(tiny_config: Path, label_data_set: Path, tmp_path: Path) -> None:
    config = load_config(tiny_config, settings(label_data_set))
    _, cached = layouts(config, tmp_path / "cache", max_bytes=40_000)
    samples = [cached.read(index) for index in range(3)]
    assert len(list((tmp_path / "cache").rglob("*.pt"))) == 2
    assert_equal(vars(cached.read(2)), vars(samples[2]))


def test_processes_that_write_at_once_leave_whole_files(
    tiny_config: Path, label_data_set: Path, tmp_path: Path
) -> None:
    arguments = settings(label_data_set, "data.cache=disk", f"data.cache_folder={tmp_path / 'cache'}")
    command = [sys.executable, "train.py", "--config", str(tiny_config), *arguments, "train.max_steps=3"]
    processes = [subprocess.Popen([*command, f"run.name={n}"], stdout=subprocess.DEVNULL) for n in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    files = list((tmp_path / "cache").rglob("*.*"))
    assert len(files) == 3
    assert all(torch.load(file, weights_only=True)["target"].shape == (3, 32, 64) for file in files)


@pytest.mark.parametrize("cache", ["memory", "disk"])
def test_a_run_with_a_cache_equals_one_without(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, cache: str
) -> None:
    arguments = settings(label_data_set, "train.max_steps=7", f"data.cache_folder={tmp_path / 'cache'}")
    run(tiny_config, *arguments, "run.name=plain")
    run(tiny_config, *arguments, f"data.cache={cache}", "data.workers=2")
    assert_equal(without_config(checkpoint(tiny_config, 7)), without_config(checkpoint(tiny_config, 7, "plain")))
    kept = list((tmp_path / "cache").rglob("*.pt"))
    assert len(kept) == (3 if cache == "disk" else 0)
    config = load_config(tiny_config, [*arguments, "data.cache=memory"])
    folder = build.cache_folder(config, tiny_config.parent / "runs" / "tiny")
    assert folder is not None
    assert not folder.exists()


def test_one_command_removes_it(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_SHARED_MEMORY", tmp_path / "shm")
    arguments = settings(label_data_set, "train.max_steps=3", f"data.cache_folder={tmp_path / 'cache'}")
    run(tiny_config, *arguments, "data.cache=disk")
    (tmp_path / "cache" / "mine.txt").touch()
    left_behind = build.cache_folder(load_config(tiny_config, [*arguments, "data.cache=memory"]), tmp_path / "killed")
    assert left_behind is not None
    shutil.copytree(tmp_path / "cache" / build.CACHE_NAME, left_behind)
    clear_cache.main(["--folder", str(tmp_path / "cache")])
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["mine.txt"]
    assert not left_behind.exists()


@pytest.mark.parametrize(
    ("kind", "free_share", "is_kept"),
    [("memory", 0.4, False), ("memory", 0.6, True), ("disk", 0.01, False), ("disk", 0.1, True)],
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
    monkeypatch.setattr(build, "_SHARED_MEMORY", tmp_path)
    config = load_config(tiny_config, settings(label_data_set, f"data.cache={kind}", f"data.cache_folder={tmp_path}"))
    layout = build.build_training_layout(
        config, build.build_layout(config, "train", needs_targets=True), tmp_path / "run"
    )
    layout.read(0)
    assert bool(list(tmp_path.rglob("*.pt"))) == is_kept
