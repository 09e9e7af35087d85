"""Checkpoints that are not what was written, and files that are none: row 7."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.runs import checkpoint, run
from utils.checkpoint import FORMAT, FORMAT_VERSION, CheckpointError, load_checkpoint, manifest_path, save_checkpoint
from utils.checkpoint_folder import checkpoint_path, list_checkpoints
from utils.cli import run_entry_point
from utils.errors import ConfigError

pytestmark = pytest.mark.row(7)

STATE = {
    "step": 3,
    "networks": {"generator": {"weight": torch.arange(500.0), "bias": torch.ones(7)}},
    "config": {"a": 1},
}


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    path = checkpoint_path(tmp_path, 3)
    save_checkpoint(path, STATE)
    return path


@pytest.mark.parametrize("has_manifest", [True, False])
def test_every_truncation_is_found(
    whole: Path, record_property: Callable[[str, object], None], has_manifest: bool
) -> None:
    record_property("cases", 200)
    content, rng = whole.read_bytes(), random.Random(0)
    if not has_manifest:
        manifest_path(whole).unlink()
    for _ in range(200):
        whole.write_bytes(content[: rng.randrange(len(content))])
        with pytest.raises(CheckpointError, match="damaged"):
            load_checkpoint(whole)


def test_every_flipped_bit_is_found(whole: Path, record_property: Callable[[str, object], None]) -> None:
    record_property("cases", 500)
    content, rng = whole.read_bytes(), random.Random(0)
    for _ in range(500):
        whole.write_bytes(flipped(content, rng))
        with pytest.raises(CheckpointError, match="damaged: it does not match checkpoint-00000003"):
            load_checkpoint(whole)


def flipped(content: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(content)
    damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def test_without_a_manifest_no_flipped_bit_changes_what_is_loaded(
    whole: Path, record_property: Callable[[str, object], None]
) -> None:
    """Bits between the records are read by nobody; all others are found by the records' own checksums."""
    record_property("cases", 500)
    manifest_path(whole).unlink()
    content, rng, n_found = whole.read_bytes(), random.Random(1), 0
    for _ in range(500):
        whole.write_bytes(flipped(content, rng))
        try:
            state = load_checkpoint(whole)
        except CheckpointError:
            n_found += 1
            continue
        assert torch.equal(state["networks"]["generator"]["weight"], torch.arange(500.0))
        assert torch.equal(state["networks"]["generator"]["bias"], torch.ones(7))
        assert state["step"] == 3
    assert n_found > 250


def rewrite(path: Path, state: object) -> None:
    manifest_path(path).unlink()
    torch.save(state, path)


def of_other_run(path: Path) -> None:
    other = path.with_name("checkpoint-00000009.pt")
    save_checkpoint(other, {"step": 9})
    shutil.copy(other, path)


def without_manifest(content: bytes) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        manifest_path(path).unlink()
        path.write_bytes(content)

    return spoil


def gone(path: Path) -> None:
    manifest_path(path).unlink()
    path.unlink()


def folder(path: Path) -> None:
    gone(path)
    path.mkdir()


HEAD = {"format": FORMAT, "format_version": FORMAT_VERSION}
WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "damaged"),
    "zeros": (lambda path: path.write_bytes(bytes(path.stat().st_size)), "damaged"),
    "of another run": (of_other_run, "damaged"),
    "empty, no manifest": (without_manifest(b""), "it is empty"),
    "web page": (without_manifest(b"<!DOCTYPE html>"), "a web page"),
    "LFS pointer": (
        without_manifest(b"version https://git-lfs.github.com"),
        "a Git LFS pointer.* git lfs pull",
    ),
    "JSON": (without_manifest(b'{"step": 3}'), "a text file"),
    "folder": (folder, "a folder"),
    "gone": (gone, "no such checkpoint file"),
    "tensor": (lambda path: rewrite(path, torch.ones(3)), "not a checkpoint, but a Tensor"),
    "list": (lambda path: rewrite(path, [1, 2]), "not a checkpoint, but a list"),
    "bare weights": (lambda path: rewrite(path, {"a": torch.ones(3)}), "not a checkpoint of this application"),
    "format is a tensor": (lambda path: rewrite(path, {"format": torch.ones(3)}), "not a checkpoint of this"),
    "no version": (lambda path: rewrite(path, {"format": FORMAT}), "has format version None"),
    "later version": (lambda path: rewrite(path, HEAD | {"format_version": FORMAT_VERSION + 1}), "update it"),
    "keys missing": (lambda path: rewrite(path, HEAD | {"step": 3}), "lacks config, generator"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_file_is_told_by_path_reason_and_remedy(whole: Path, kind: str) -> None:
    spoil, reason = WRONG[kind]
    spoil(whole)
    with pytest.raises(CheckpointError, match=reason) as caught:
        load_checkpoint(whole, needed_keys=["step", "config", "generator"])
    assert str(whole) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("is_named", [False, True])
def test_training_goes_on_from_the_one_before_and_keeps_the_damaged_one(
    tiny_config: Path, capfd: pytest.CaptureFixture[str], is_named: bool
) -> None:
    run(tiny_config, "train.max_steps=4", "checkpoint.every_steps=2")
    newest = checkpoint_path(tiny_config.parent / "runs" / "tiny", 4)
    newest.write_bytes(newest.read_bytes()[:-100])
    resume = ["--resume", str(newest.parent)] if is_named else []
    run(tiny_config, "train.max_steps=6", "checkpoint.every_steps=1", "checkpoint.keep=1", *resume)
    out = capfd.readouterr().out
    assert f"skipped {newest}: damaged" in out
    assert "checkpoint-00000002.pt" in out.partition("resuming from")[2]
    assert newest.with_name(f"{newest.name}.damaged").is_file()
    assert [path.name for path in list_checkpoints(newest.parent)] == ["checkpoint-00000006.pt"]


def test_where_none_is_whole_the_run_does_not_start_anew_by_itself(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(tiny_config, "train.max_steps=2")
    only = checkpoint_path(tiny_config.parent / "runs" / "tiny", 2)
    only.write_bytes(b"")
    import train

    monkeypatch.setattr("sys.argv", ["train.py", "--config", str(tiny_config)])
    assert run_entry_point(train.main) == 2
    assert "none of its 1 checkpoints is valid; start from the beginning with --resume never" in capfd.readouterr().err


def test_a_file_named_by_the_user_is_not_passed_over(tiny_config: Path) -> None:
    run(tiny_config, "train.max_steps=4", "checkpoint.every_steps=2")
    named = checkpoint_path(tiny_config.parent / "runs" / "tiny", 4)
    named.write_bytes(named.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=f"{named.name}: damaged"):
        run(tiny_config, "--resume", str(named))


def test_nothing_is_half_loaded(tiny_config: Path) -> None:
    """Of a checkpoint whose discriminator does not fit, the generator is not taken for a start either."""
    run(tiny_config, "train.max_steps=2")
    state = checkpoint(tiny_config, 2)
    state["networks"]["discriminator"].popitem()
    path = checkpoint_path(tiny_config.parent / "runs" / "tiny", 2)
    save_checkpoint(path, {key: value for key, value in state.items() if not key.startswith("format")})
    with pytest.raises(CheckpointError, match="does not fit, or is ill-formed"):
        run(tiny_config, "train.max_steps=3")
    assert [found.name for found in list_checkpoints(path.parent)] == [path.name]


@pytest.mark.parametrize("content", ["", "[]", '{"bytes": 3', '{"bytes": 3}'])
def test_a_damaged_manifest_does_not_cost_the_checkpoint(whole: Path, content: str) -> None:
    manifest_path(whole).write_text(content)
    assert load_checkpoint(whole)["step"] == 3
    damaged = bytearray(whole.read_bytes())
    position = damaged.index(torch.arange(500.0).numpy().tobytes()[400:440])
    damaged[position] ^= 1
    whole.write_bytes(bytes(damaged))
    with pytest.raises(CheckpointError, match="damaged at"):  # by its own checksums
        load_checkpoint(whole)


@pytest.mark.parametrize(
    "error",
    [OSError(5, "Input/output error"), MemoryError(), RuntimeError("unable to mmap: Cannot allocate memory (12)")],
    ids=lambda error: type(error).__name__,
)
def test_what_cannot_be_read_now_is_not_taken_for_damaged(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    run(tiny_config, "train.max_steps=4", "checkpoint.every_steps=2")

    def fails(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as context:
        context.setattr(torch, "load", fails)
        with pytest.raises(CheckpointError, match=r"00000004\.pt: cannot be read now"):
            run(tiny_config, "train.max_steps=6")
    run(tiny_config, "train.max_steps=6")
    assert not list((tiny_config.parent / "runs" / "tiny").glob("*.damaged"))


ILL_FORMED: dict[str, object] = {
    "networks": None,
    "optimizers": {"generator": {}, "discriminator": {}},
    "step": "x",
    "samples_into_epoch": None,
    "random_states": [{}],
    "data": "abc",
    "averages": {"generator": {}},
    "config": [1],
}


@pytest.mark.parametrize("key", ILL_FORMED)
def test_what_is_whole_and_ill_formed_is_told(tiny_config: Path, key: str) -> None:
    run(tiny_config, "train.max_steps=2", "train.ema_decay=0.9")
    path = checkpoint_path(tiny_config.parent / "runs" / "tiny", 2)
    state = {name: value for name, value in checkpoint(tiny_config, 2).items() if not name.startswith("format")}
    save_checkpoint(path, {**state, "epoch": 0, key: ILL_FORMED[key]})
    with pytest.raises((CheckpointError, ConfigError), match=path.name):
        run(tiny_config, "train.max_steps=3", "train.ema_decay=0.9")
