import shutil
import sys
from collections import namedtuple
from pathlib import Path

import pytest
import torch

import train
from configs.load import load_config
from tests.runs import run
from training.disk_space import count_more_files, free_bytes
from training.resume import find_checkpoint, restore
from training.setup import Training, build_training
from utils.cli import run_entry_point
from utils.distributed import World

Disk = namedtuple("Disk", "total used free")


def built(config: Path, *settings: str) -> Training:
    return build_training(load_config(config, settings), World(0, 1, torch.device("cpu")))


def set_free(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(2**60, 0, int(free)))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["train.max_steps=100", "checkpoint.every_steps=10"], 3 + 1),  # one is written before the oldest is deleted
        (["train.max_steps=100", "checkpoint.every_steps=10", "checkpoint.best=l1"], 3 + 1 + 1),
        (["train.max_steps=95", "checkpoint.every_steps=10", "checkpoint.keep=0"], 10),
        (["train.max_steps=4"], 1),
    ],
)
def test_files_of_a_new_run_are_counted(tiny_config: Path, settings: list[str], expected: int) -> None:
    assert count_more_files(built(tiny_config, *settings), continues=True) == expected


def test_what_a_run_has_already_is_not_counted_again(trained_config: Path) -> None:
    training = built(trained_config, "train.max_steps=100", "checkpoint.every_steps=10")
    found = find_checkpoint(training.folder, "auto")
    assert found
    restore(training, found)
    assert count_more_files(training, continues=True) == 3
    assert count_more_files(training, continues=False) == 4


@pytest.mark.parametrize("arguments", [[], ["--dry-run"]], ids=str)
def test_a_disk_too_small_for_all_is_a_warning_and_for_one_an_error(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    n_bytes = built(tiny_config).run_state.n_bytes
    settings = ["train.max_steps=4", "checkpoint.every_steps=1", *arguments]
    set_free(monkeypatch, n_bytes * 3.9)
    run(tiny_config, *settings)
    assert "lower checkpoint.keep=3" in capfd.readouterr().out
    set_free(monkeypatch, n_bytes * 4.1)
    run(tiny_config, *settings, "--resume", "never")
    assert "free space" not in capfd.readouterr().out
    set_free(monkeypatch, n_bytes * 0.9)
    monkeypatch.setattr(sys, "argv", ["train.py", "--config", str(tiny_config), "run.name=none", *settings])
    assert run_entry_point(train.main) == 2
    error = capfd.readouterr().err
    assert "none: a checkpoint takes about" in error
    assert error.count("\n") == 1
    assert not (tiny_config.parent / "runs" / "none").exists()


def test_the_folder_need_not_exist_and_a_file_system_that_counts_nothing_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert free_bytes(tmp_path / "runs" / "new") is not None
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(0, 0, 0))
    assert free_bytes(tmp_path) is None
