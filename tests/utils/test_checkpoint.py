import errno
import os
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from utils import checkpoint
from utils.checkpoint import (
    FORMAT_VERSION,
    CheckpointError,
    load_checkpoint,
    manifest_path,
    read_weights_file,
    save_checkpoint,
    upgrade,
)
from utils.checkpoint_folder import checkpoint_path, list_checkpoints, remove_old_checkpoints
from utils.digest import sha256_of_file


@pytest.mark.parametrize(
    ("keep", "kept"), [(2, [20, 100_000_000]), (5, [5, 20, 100_000_000]), (0, [5, 20, 100_000_000])]
)
def test_those_of_the_highest_steps_are_kept(tmp_path: Path, keep: int, kept: list[int]) -> None:
    for step in (5, 100_000_000, 20):
        save_checkpoint(checkpoint_path(tmp_path, step), {"step": step})
    (tmp_path / "checkpoint-best.pt").touch()
    remove_old_checkpoints(tmp_path, keep)
    assert [load_checkpoint(path)["step"] for path in list_checkpoints(tmp_path)] == kept


def test_a_missing_checkpoint_names_those_beside_it(tmp_path: Path) -> None:
    for step in range(3, 13):
        save_checkpoint(checkpoint_path(tmp_path, step), {"step": step})
    save_checkpoint(tmp_path / "best.pt", {})
    latest = r"checkpoint-00000012\.pt, checkpoint-00000011\.pt"
    with pytest.raises(CheckpointError, match=rf"no such checkpoint file; checkpoints in .*: best\.pt, {latest}.*, …$"):
        load_checkpoint(tmp_path / "checkpoint-00000099.pt")


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


@pytest.mark.parametrize("has_manifest", [True, False])
@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
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


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="mapped files are listed by Linux")
def test_a_checkpoint_can_stay_in_its_file_and_the_file_of_another_program_does_not(tmp_path: Path) -> None:
    path, other = checkpoint_path(tmp_path, 1), tmp_path / "latest_net_G.pth"
    save_checkpoint(path, {"weight": torch.arange(1000.0)})
    torch.save({"weight": torch.arange(1000.0)}, other)
    states = [read_weights_file(file, is_mapped=True) for file in (path, other)]
    assert all(torch.equal(state["weight"], torch.arange(1000.0)) for state in states)
    maps = Path("/proc/self/maps").read_text()
    assert str(path) in maps
    assert str(other) not in maps


def test_parts_of_earlier_versions_find_their_places() -> None:
    weights, moments = {"weight": torch.ones(1)}, {"weight": {"step": 2}}
    network = {"network": weights, "optimizer": moments, "scaler": {}, "skipped_steps": 3}
    old = {"format_version": 2, "step": 4, "generator": network, "discriminator": network}
    more = {"generator_average": {"module.weight": 5}, "pool": [6], "augmentation": {"probability": 0.7}}
    group = {"scaler": {}, "skipped_steps": 3}
    expected = {
        "format_version": FORMAT_VERSION,
        "step": 4,
        "networks": dict.fromkeys(("generator", "discriminator"), weights),
        "optimizers": {name: {"moments": {name: moments}, **group} for name in ("generator", "discriminator")},
    }
    assert upgrade(old) == expected | {"averages": {}, "method": {}}
    assert upgrade(old | more) == expected | {
        "averages": {"generator": more["generator_average"]},
        "method": {"pool": [6], "augmentation": {"probability": 0.7}},
    }
    assert upgrade(expected) is expected
    assert upgrade({"format_version": 1, "generator": None})["networks"] == {}
