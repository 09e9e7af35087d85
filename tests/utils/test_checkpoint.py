import errno
import os
import stat
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from tests.mapped_files import lists_mapped_files, mapped_bytes
from utils import checkpoint, checkpoint_folder, files
from utils.checkpoint import load_checkpoint, manifest_path, save_checkpoint
from utils.checkpoint_folder import checkpoint_path, latest_valid, newest_run, remove_old_checkpoints
from utils.files import sha256_of_file


@pytest.mark.parametrize(("keep", "kept"), [(2, [99_999_999, 100_000_000]), (0, [5, 99_999_999, 100_000_000])])
def test_the_checkpoints_of_the_highest_steps_are_kept(tmp_path: Path, keep: int, kept: list[int]) -> None:
    for step in (5, 100_000_000, 99_999_999):
        save_checkpoint(checkpoint_path(tmp_path, step), {"step": step})
    (tmp_path / "checkpoint-best.pt").touch()
    remove_old_checkpoints(tmp_path, keep)
    found = checkpoint_folder.list_checkpoints(tmp_path)
    assert [load_checkpoint(path)["step"] for path in found] == kept


def test_a_crash_before_the_manifest_leaves_a_valid_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "best.pt"
    save_checkpoint(path, {"step": 1})

    def crash(point: str, _path: Path) -> None:
        if point == "renamed":
            raise KeyboardInterrupt

    monkeypatch.setattr(files, "fault_point", crash)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, {"step": 2})
    assert load_checkpoint(path)["step"] == 2


def test_a_checkpoint_replaced_before_its_checksum_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "best.pt"
    save_checkpoint(path, {"step": 1})

    def replace_and_hash(file: Path) -> str:
        monkeypatch.undo()
        save_checkpoint(path, {"step": 2})
        return sha256_of_file(file)

    monkeypatch.setattr(checkpoint, "sha256_of_file", replace_and_hash)
    assert load_checkpoint(path)["step"] == 2


@pytest.mark.parametrize(("has_manifest", "number"), [(True, errno.EIO), (False, errno.EMFILE)])
def test_an_archive_that_cannot_be_opened_now_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_manifest: bool, number: int
) -> None:
    path = checkpoint_path(tmp_path, 1)
    save_checkpoint(path, {"step": 1})
    if not has_manifest:
        manifest_path(path).unlink()
    monkeypatch.setattr(zipfile, "ZipFile", Mock(side_effect=OSError(number, os.strerror(number))))
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        load_checkpoint(path)
    assert caught.value.filename == str(path)


@lists_mapped_files
@pytest.mark.parametrize("has_manifest", [True, False])
def test_the_tensors_of_a_checkpoint_stay_in_its_file_until_they_are_used(tmp_path: Path, has_manifest: bool) -> None:
    path = checkpoint_path(tmp_path, 1)
    save_checkpoint(path, {"weight": torch.arange(2.5e5), "moments": torch.arange(7.5e5)})
    if not has_manifest:
        manifest_path(path).unlink()
    state = load_checkpoint(path)
    assert (mapped_bytes(path) or 0) < 5e5
    assert torch.equal(state["weight"], torch.arange(2.5e5))
    assert 1e6 < (mapped_bytes(path) or 0) < 1.5e6
    state.clear()
    assert mapped_bytes(path) is None


def test_a_checkpoint_is_read_from_a_file_system_that_maps_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(path := checkpoint_path(tmp_path, 1), {"weight": torch.arange(1000.0)})
    refused = Mock(side_effect=RuntimeError("unable to mmap 4000 bytes from file: No such device (19)"))
    monkeypatch.setattr(torch.UntypedStorage, "from_file", refused)
    assert torch.equal(load_checkpoint(path)["weight"], torch.arange(1000.0))
    refused.assert_called_once()


def test_a_file_system_that_refuses_to_sync_folders_is_reported_once_and_a_disk_that_fails_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sync, number = os.fsync, errno.EINVAL

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(files, "_unsynced", [])
    for number in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EACCES, errno.EPERM, errno.EBADF):
        save_checkpoint(path := checkpoint_path(tmp_path / str(number), 1), {"step": number})
        assert load_checkpoint(path)["step"] == number
    (message,) = caplog.messages
    assert message.startswith(f"{tmp_path / str(errno.EINVAL)}: its file system cannot sync folders")
    number = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        save_checkpoint(checkpoint_path(tmp_path, 1), {"step": 1})


@pytest.mark.parametrize(("is_damaged", "keep"), [(False, 1), (True, 0)])
def test_a_checkpoint_that_is_written_while_one_is_deleted_or_damaged_is_the_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_damaged: bool, keep: int
) -> None:
    first = checkpoint_path(tmp_path, 1)
    save_checkpoint(first, {"step": 1})
    if is_damaged:
        first.write_bytes(b"")

    def late(path: Path) -> dict[str, Any]:
        """Load a checkpoint after another one has been saved and old ones have been removed."""
        monkeypatch.undo()
        save_checkpoint(checkpoint_path(tmp_path, 2), {"step": 2})
        remove_old_checkpoints(tmp_path, keep)
        return load_checkpoint(path)

    monkeypatch.setattr(checkpoint_folder, "load_checkpoint", late)
    found = latest_valid(tmp_path)
    assert found is not None
    assert (found.state["step"], found.damaged, len(caplog.messages)) == (2, [first] * is_damaged, is_damaged)


def test_the_newest_run_is_found_although_a_checkpoint_has_just_been_deleted(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    checkpoint_path(tmp_path / "run", 1).symlink_to(tmp_path / "deleted")
    assert newest_run(tmp_path) is None
    checkpoint_path(tmp_path / "run", 2).touch()
    assert newest_run(tmp_path) == tmp_path / "run"
