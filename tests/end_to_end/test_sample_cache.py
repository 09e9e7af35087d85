"""Runs with data.cache."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from configs import sample_cache
from configs.load import load_config
from tests import processes
from tests.runs import assert_equal, checkpoint, run, without_config
from tools import clear_cache


def settings(root: Path, *more: str) -> list[str]:
    return ["data.layout=paired_folders", "data.n_classes=5", f"data.root={root}", "data.crop_height=32", *more]


def kept(folder: Path) -> set[int]:
    """Return the files of a cache by their inodes, which all names of a file share."""
    return {path.stat().st_ino for path in folder.rglob("*.pt")}


@pytest.mark.parametrize(
    ("free_bytes", "line"),
    [(2**40, r"about 0\.0 MiB"), (3 * 2**14, r"about 2 of 3 samples fit: too little is free in .*/cache/samples")],
)
def test_the_plan_reports_how_much_will_be_kept(
    tiny_config: Path,
    label_data_set: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    free_bytes: int,
    line: str,
) -> None:
    usage = SimpleNamespace(total=0, used=0, free=free_bytes)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    folder = tmp_path / "cache"
    run(tiny_config, *settings(label_data_set, f"data.cache={folder}"), "--dry-run")
    said = [said for said in capfd.readouterr().out.splitlines() if said.startswith("cache ")]
    assert len(said) == 1
    assert re.fullmatch(f"cache          {re.escape(str(folder))}, {line}", said[0])
    assert not folder.exists()


def test_processes_that_write_at_once_leave_whole_files(
    tiny_config: Path, label_data_set: Path, tmp_path: Path
) -> None:
    arguments = settings(label_data_set, f"data.cache={tmp_path / 'cache'}")
    three = [processes.start(tiny_config, *arguments, "train.max_steps=3", f"run.name={n}") for n in range(3)]
    for process in three:
        process.join(processes.PATIENCE_S)
    assert [process.exitcode for process in three] == [0, 0, 0]
    files = list((tmp_path / "cache").rglob("*.*"))
    assert len(files) == 2 * 3
    assert len(kept(tmp_path / "cache")) == 3
    assert all(torch.load(file, weights_only=True)["target"].shape == (3, 32, 64) for file in files)


@pytest.mark.parametrize("cache", ["memory", "disk"])
def test_a_run_with_a_cache_equals_one_without(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, cache: str
) -> None:
    arguments = settings(label_data_set, "train.max_steps=7")
    run(tiny_config, *arguments, "run.name=plain")
    run(tiny_config, *arguments, f"data.cache={cache if cache == 'memory' else tmp_path / 'cache'}", "data.workers=2")
    assert_equal(without_config(checkpoint(tiny_config, 7)), without_config(checkpoint(tiny_config, 7, "plain")))
    assert len(kept(tmp_path / "cache")) == (3 if cache == "disk" else 0)
    config = load_config(tiny_config, [*arguments, "data.cache=memory"])
    folder = sample_cache.cache_folder(config, tiny_config.parent / "runs" / "tiny")
    assert folder is not None
    assert not folder.exists()


def test_one_command_removes_it(
    tiny_config: Path, label_data_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_cache, "_SHARED_MEMORY", tmp_path / "shm")
    arguments = settings(label_data_set, "train.max_steps=3")
    run(tiny_config, *arguments, f"data.cache={tmp_path / 'cache'}")
    (tmp_path / "cache" / "mine.txt").touch()
    left_behind = sample_cache.cache_folder(
        load_config(tiny_config, [*arguments, "data.cache=memory"]), tmp_path / "killed"
    )
    assert left_behind is not None
    shutil.copytree(tmp_path / "cache" / sample_cache.CACHE_NAME, left_behind)
    clear_cache.main(["--folder", str(tmp_path / "cache")])
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["mine.txt"]
    assert not left_behind.exists()
