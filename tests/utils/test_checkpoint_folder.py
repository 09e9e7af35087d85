"""A run's folder is read while a training writes checkpoints and deletes old ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from utils import checkpoint_folder
from utils.checkpoint import save_checkpoint
from utils.checkpoint_folder import checkpoint_path, latest_valid, newest_run, remove_old_checkpoints


def superseding(read: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch, keep: int = 1) -> Callable[[Path], Any]:
    """Return `read` behind a save and its retention, which come before its first call."""

    def late(path: Path) -> Any:
        monkeypatch.undo()
        save_checkpoint(checkpoint_path(path.parent, 2), {"step": 2})
        remove_old_checkpoints(path.parent, keep)
        return read(path)

    return late


@pytest.mark.parametrize(("is_damaged", "keep"), [(False, 1), (True, 0)])
def test_a_checkpoint_that_is_written_while_one_is_deleted_or_damaged_is_the_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_damaged: bool, keep: int
) -> None:
    first = checkpoint_path(tmp_path, 1)
    save_checkpoint(first, {"step": 1})
    if is_damaged:
        first.write_bytes(b"")
    load = checkpoint_folder.load_checkpoint
    monkeypatch.setattr(checkpoint_folder, "load_checkpoint", superseding(load, monkeypatch, keep))
    found = latest_valid(tmp_path)
    assert found is not None
    assert (found.state["step"], found.damaged, len(caplog.messages)) == (2, [first] * is_damaged, is_damaged)


def test_the_newest_run_is_found_where_a_checkpoint_has_just_been_deleted(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    checkpoint_path(tmp_path / "run", 1).symlink_to(tmp_path / "deleted")
    assert newest_run(tmp_path) is None
    checkpoint_path(tmp_path / "run", 2).touch()
    assert newest_run(tmp_path) == tmp_path / "run"
