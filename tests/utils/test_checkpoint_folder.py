"""A run's folder is read while a training writes checkpoints and deletes old ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from utils import checkpoint_folder
from utils.checkpoint import save_checkpoint
from utils.checkpoint_folder import checkpoint_path, latest_file, latest_valid, newest_run, remove_old_checkpoints


def superseding(read: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch, keep: int = 1) -> Callable[[Path], Any]:
    """Return `read` behind a save and its retention, which come before its first call."""

    def late(path: Path) -> Any:
        monkeypatch.undo()
        save_checkpoint(checkpoint_path(path.parent, 2), {"step": 2})
        remove_old_checkpoints(path.parent, keep)
        return read(path)

    return late


@pytest.mark.parametrize(("find", "read"), [(latest_file, "check_file"), (latest_valid, "load_checkpoint")])
def test_a_checkpoint_that_is_deleted_after_it_was_listed_gives_way_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, find: Callable[..., Any], read: str
) -> None:
    save_checkpoint(checkpoint_path(tmp_path, 1), {"step": 1})
    monkeypatch.setattr(checkpoint_folder, read, superseding(getattr(checkpoint_folder, read), monkeypatch))
    found = find(tmp_path, pytest.fail)
    assert getattr(found, "path", found) == checkpoint_path(tmp_path, 2)


@pytest.mark.parametrize("find", [latest_file, latest_valid])
def test_where_all_have_been_deleted_there_is_none(tmp_path: Path, find: Callable[..., Any]) -> None:
    checkpoint_path(tmp_path, 1).symlink_to(tmp_path / "deleted")
    assert find(tmp_path, pytest.fail) is None


def test_a_checkpoint_that_is_written_while_a_damaged_one_is_read_is_the_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint_path(tmp_path, 1).touch()
    load = checkpoint_folder.load_checkpoint
    monkeypatch.setattr(checkpoint_folder, "load_checkpoint", superseding(load, monkeypatch, keep=0))
    warnings: list[str] = []
    found = latest_valid(tmp_path, warnings.append)
    assert found is not None
    assert (found.state["step"], found.damaged, len(warnings)) == (2, [checkpoint_path(tmp_path, 1)], 1)


def test_the_newest_run_is_found_where_a_checkpoint_has_just_been_deleted(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    checkpoint_path(tmp_path / "run", 1).symlink_to(tmp_path / "deleted")
    assert newest_run(tmp_path) is None
    checkpoint_path(tmp_path / "run", 2).touch()
    assert newest_run(tmp_path) == tmp_path / "run"
