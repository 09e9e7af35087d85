"""Damaged checkpoints, and other files with their names: row 7."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.reliability.faults import throw
from tests.runs import assert_equal, checkpoint, run
from utils.checkpoint import (
    FORMAT,
    FORMAT_VERSION,
    CheckpointError,
    check_training_state,
    load_checkpoint,
    manifest_path,
    save_checkpoint,
)
from utils.checkpoint_folder import checkpoint_path, list_checkpoints

pytestmark = pytest.mark.row(7)

WEIGHTS = {"weight": torch.arange(500.0), "bias": torch.ones(7)}
STATE = {"step": 3, "networks": {"generator": WEIGHTS}, "config": {"a": 1}}


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    path = checkpoint_path(tmp_path, 3)
    save_checkpoint(path, STATE)
    return path


def cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def flipped(content: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(content)
    damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


@pytest.mark.parametrize(
    ("damage", "has_manifest", "n_cases"), [(cut, True, 100), (cut, False, 100), (flipped, True, 200)]
)
def test_every_truncation_and_flipped_bit_is_found(
    whole: Path,
    record_property: Callable[[str, object], None],
    damage: Callable[[bytes, random.Random], bytes],
    has_manifest: bool,
    n_cases: int,
) -> None:
    record_property("cases", n_cases)
    content, rng = whole.read_bytes(), random.Random(0)
    if not has_manifest:
        manifest_path(whole).unlink()
    for _ in range(n_cases):
        whole.write_bytes(damage(content, rng))
        with pytest.raises(CheckpointError, match="damaged: it does not match" if damage is flipped else "damaged"):
            load_checkpoint(whole)


def test_without_a_manifest_no_flipped_bit_changes_what_is_loaded(
    whole: Path, record_property: Callable[[str, object], None]
) -> None:
    """Bits between the records are read by nobody; all others are found by the records' own checksums."""
    record_property("cases", 200)
    manifest_path(whole).unlink()
    content, rng, n_found = whole.read_bytes(), random.Random(1), 0
    for _ in range(200):
        whole.write_bytes(flipped(content, rng))
        try:
            state = load_checkpoint(whole)
        except CheckpointError:
            n_found += 1
            continue
        assert_equal({key: state[key] for key in STATE}, STATE)
    assert n_found > 100


def rewrite(state: object) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        manifest_path(path).unlink()
        torch.save(state, path)

    return spoil


def replaced(content: bytes | None, is_folder: bool = False) -> Callable[[Path], None]:
    """Without manifest: a file, a folder or, without content, nothing."""

    def spoil(path: Path) -> None:
        manifest_path(path).unlink()
        path.unlink()
        if is_folder:
            path.mkdir()
        elif content is not None:
            path.write_bytes(content)

    return spoil


def of_other_run(path: Path) -> None:
    other = path.with_name("checkpoint-00000009.pt")
    save_checkpoint(other, {"step": 9})
    shutil.copy(other, path)


HEAD = {"format": FORMAT, "format_version": FORMAT_VERSION}
WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "damaged"),
    "zeros": (lambda path: path.write_bytes(bytes(path.stat().st_size)), "damaged"),
    "of another run": (of_other_run, "damaged"),
    "web page": (replaced(b"<!DOCTYPE html>"), "a web page"),
    "LFS pointer": (replaced(b"version https://git-lfs.github.com"), "a Git LFS pointer"),
    "source code": (replaced(b"import os\nos.system('x')\n"), "but text"),
    "JSON": (replaced(b'{"step": 3}'), "but text"),
    "folder": (replaced(None, is_folder=True), "a folder"),
    "gone": (replaced(None), "no such checkpoint file"),
    "tensor": (rewrite(torch.ones(3)), "not a checkpoint, but a Tensor"),
    "bare weights": (rewrite({"a": torch.ones(3)}), "not a checkpoint of this application"),
    "no version": (rewrite({"format": FORMAT}), "has format version None"),
    "version 1": (rewrite(HEAD | {"format_version": 1, "generator": {}}), "has format version 1, .*1\\.0\\.0"),
    "later version": (rewrite(HEAD | {"format_version": FORMAT_VERSION + 1}), "Update the application"),
    "keys missing": (rewrite(HEAD | {"step": 3}), "lacks config, generator"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_file_is_named_with_reason_and_remedy(whole: Path, kind: str) -> None:
    spoil, reason = WRONG[kind]
    spoil(whole)
    with pytest.raises(CheckpointError, match=reason) as caught:
        check_training_state(load_checkpoint(whole), whole, needed_keys=["step", "config", "generator"])
    assert str(whole) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_training_goes_on_from_the_one_before_and_keeps_the_damaged_one(
    tiny_config: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(tiny_config, "train.max_steps=4", "checkpoint.every_steps=2")
    newest = checkpoint_path(tiny_config.parent / "runs" / "tiny", 4)
    newest.write_bytes(newest.read_bytes()[:-100])
    run(tiny_config, "train.max_steps=6", "checkpoint.every_steps=1", "checkpoint.keep=1")
    out = capfd.readouterr().out
    assert f"skipped {newest}: damaged" in out
    assert "checkpoint-00000002.pt" in out.partition("resuming from")[2]
    assert newest.with_name(f"{newest.name}.damaged").is_file()
    assert [path.name for path in list_checkpoints(newest.parent)] == ["checkpoint-00000006.pt"]


def test_a_file_named_by_the_user_is_not_passed_over(trained_config: Path) -> None:
    named = checkpoint_path(trained_config.parent / "runs" / "tiny", 4)
    shutil.copy(named, checkpoint_path(named.parent, 3))  # is not taken instead
    named.write_bytes(named.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=f"{named.name}: damaged"):
        run(trained_config, "--resume", str(named))


def test_nothing_is_half_loaded(trained_config: Path) -> None:
    """Of a checkpoint whose discriminator does not fit, the generator is not taken for a start either."""
    state = checkpoint(trained_config, 4)
    state["networks"]["discriminator"].popitem()
    path = checkpoint_path(trained_config.parent / "runs" / "tiny", 4)
    save_checkpoint(path, {key: value for key, value in state.items() if not key.startswith("format")})
    with pytest.raises(CheckpointError, match="does not fit, or is damaged"):
        run(trained_config, "train.max_steps=5")
    assert [found.name for found in list_checkpoints(path.parent)] == [path.name]


@pytest.mark.parametrize("content", ["[]", '{"bytes": 3', '{"bytes": 3}'])
def test_a_damaged_manifest_does_not_cost_the_checkpoint(whole: Path, content: str) -> None:
    manifest_path(whole).write_text(content)
    assert load_checkpoint(whole)["step"] == 3
    damaged = bytearray(whole.read_bytes())
    position = damaged.index(torch.arange(500.0).numpy().tobytes()[400:440])
    damaged[position] ^= 1
    whole.write_bytes(bytes(damaged))
    with pytest.raises(CheckpointError, match="damaged at"):  # its own checksums find it
        load_checkpoint(whole)


def test_what_cannot_be_read_now_is_not_taken_for_damaged(
    trained_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [OSError(5, "Input/output error"), MemoryError(), RuntimeError("unable to mmap: Cannot allocate memory")]
    for error in errors:
        with monkeypatch.context() as context:
            context.setattr(torch, "load", lambda *_, error=error, **__: throw(error))
            with pytest.raises(CheckpointError, match=r"00000004\.pt: cannot be read now"):
                run(trained_config, "train.max_steps=6")
    assert not list((trained_config.parent / "runs" / "tiny").glob("*.damaged"))
    assert checkpoint(trained_config, 4)["step"] == 4


RECORDS = {
    "metrics.jsonl": b'{"step": 1, "loss": 1}\n\xff\xfe\n{"step": 1e999}\n{"step": 2, "a": 1'
    + b"0" * 5000
    + b"}\n[[{\n",
    "web/rows.jsonl": b'{"step": 1}\n\xff\n{"step": 2, "name": "a", "images": {"translated"',
    "state.json": b"\xff",
    "log.txt": b"\xff\n",
    "config.yaml": b"\xff: [",
    "best.pt": b"\xff",
    "best.pt.json": b"[" * 10**5,
    "checkpoint-00000004.pt.json": b"[" * 10**5,
}


@pytest.mark.parametrize("content", ["damaged", "folder"])
def test_no_record_prevents_a_resume(trained_config: Path, content: str) -> None:
    folder = trained_config.parent / "runs" / "tiny"
    for name, damaged in RECORDS.items():
        path = folder / name
        path.unlink(missing_ok=True)
        if content == "folder":
            path.mkdir()
        else:
            path.write_bytes(damaged)
    run(trained_config, "train.max_steps=5")
    assert checkpoint(trained_config, 5)["step"] == 5
