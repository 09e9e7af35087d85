"""A checkpoint is read while a training deletes old ones."""

from pathlib import Path

import pytest

from inference.load import load_from
from utils.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from utils.checkpoint_folder import checkpoint_path


def test_a_checkpoint_that_is_deleted_before_it_is_read_gives_way_to_the_next(tmp_path: Path) -> None:
    for step in (1, 2):
        save_checkpoint(checkpoint_path(tmp_path, step), {"step": step})

    def load(path: Path) -> int:
        checkpoint_path(tmp_path, 2).unlink(missing_ok=True)
        return int(load_checkpoint(path)["step"])

    assert load_from(tmp_path, load) == (checkpoint_path(tmp_path, 1), 1)


def test_one_that_was_named_does_not(tmp_path: Path) -> None:
    for step in (1, 2):
        save_checkpoint(checkpoint_path(tmp_path, step), {"step": step})
    named = checkpoint_path(tmp_path, 2)

    def load(path: Path) -> None:
        named.unlink()
        load_checkpoint(path)

    with pytest.raises(CheckpointError, match=r"00000002\.pt: no such checkpoint file; checkpoints in .*00000001"):
        load_from(named, load)
