import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from tests.runs import built, run
from training.disk_space import count_more_files, describe_shortage, free_bytes
from training.resume import find_checkpoint, restore
from utils.errors import ConfigError

Disk = namedtuple("Disk", "total used free")


def set_free(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(2**60, 0, int(free)))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["train.max_steps=100", "checkpoint.every_steps=10"], 3 + 1),  # one is written before the oldest is deleted
        (["train.max_steps=100", "checkpoint.every_steps=10", "checkpoint.best=auto"], 3 + 1 + 1),
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


@pytest.mark.parametrize(("share", "warns"), [(4.1, False), (3.9, True)])
def test_a_disk_too_small_for_all_is_a_warning(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, share: float, warns: bool
) -> None:
    training = built(tiny_config, "checkpoint.every_steps=1")
    set_free(monkeypatch, training.n_bytes * share)
    lines = describe_shortage(training, continues=True)
    assert ["change checkpoint.keep=3" in line for line in lines] == [True] * warns


def test_a_disk_too_small_for_one_is_an_error_and_leaves_no_folder(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_free(monkeypatch, built(tiny_config).n_bytes * 0.9)
    with pytest.raises(ConfigError, match=r"tiny: a checkpoint takes about .* free space, or set run\.root to"):
        run(tiny_config)
    assert not (tiny_config.parent / "runs" / "tiny").exists()


def test_the_folder_need_not_exist_and_a_file_system_that_counts_nothing_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert free_bytes(tmp_path / "runs" / "new") is not None
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(0, 0, 0))
    assert free_bytes(tmp_path) is None
