"""The folder of a run: its lock, and what it is prepared for."""

from pathlib import Path

import pytest

from training.run_folder import RunLockedError, prepare_folder, run_lock
from utils.errors import ConfigError


def test_a_run_in_the_way_is_archived_and_other_files_are_not_moved(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for number in (1, 2):
        prepare_folder(folder, [], continues=True)
        (folder / "state.json").write_text(str(number))
        prepare_folder(folder, [], continues=False)
        assert (tmp_path / f"run.{number}" / "state.json").read_text() == str(number)
        assert not any(folder.iterdir())
    (folder / "notes.txt").touch()
    with pytest.raises(ConfigError, match=r"run\.root, run\.name: cannot make or write .*not of a run"):
        prepare_folder(folder, [], continues=False)


def test_what_a_killed_run_left_is_removed_and_damaged_checkpoints_are_renamed(tmp_path: Path) -> None:
    damaged, manifest = tmp_path / "checkpoint-00000002.pt", tmp_path / "checkpoint-00000001.pt.json"
    for path in (damaged, manifest):
        path.touch()
    prepare_folder(tmp_path, [damaged], continues=True)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-00000002.pt.damaged"]


def test_one_process_trains_in_a_folder_at_a_time(tmp_path: Path) -> None:
    with run_lock(tmp_path / "run"):
        with pytest.raises(RunLockedError, match="run: another process"), run_lock(tmp_path / "run"):
            pass
        with run_lock(tmp_path / "other"):
            pass
    with run_lock(tmp_path / "run"):
        pass
