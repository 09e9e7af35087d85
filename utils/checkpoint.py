"""Checkpoint files: written so that no crash can lose one, read without running any code from them."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

import torch

FORMAT = "pairgan-training"
FORMAT_VERSION = 2
READABLE_VERSIONS = (1, 2)  # 1 keeps the optimizers' state by position, 2 by parameter name
_FILE_NAME = re.compile(r"checkpoint-(\d{8,})\.pt")


class CheckpointError(ValueError):
    """A checkpoint cannot be used; the message names the file, the reason and the way out."""


def checkpoint_path(run_folder: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return run_folder / f"checkpoint-{step:08d}.pt"


def list_checkpoints(run_folder: Path) -> list[Path]:
    """The checkpoints of a run by rising step."""
    steps = {path: match for path in run_folder.glob("checkpoint-*.pt") if (match := _FILE_NAME.fullmatch(path.name))}
    return sorted(steps, key=lambda path: int(steps[path][1]))


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a run's `state`, tensors and plain types only, so that `path` is at any instant whole or not there.

    Raises:
        OSError: the disk is full or not writable, with the path; what `path` held before is still there.
    """
    write_weights_file(path, {"format": FORMAT, "format_version": FORMAT_VERSION, **state})


def write_weights_file(path: Path, state: dict[str, Any]) -> None:
    """Write what `read_weights_file` reads, as `save_checkpoint` does, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.writing")
    try:
        with temporary.open("wb") as file:
            _serialize(state, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def read_weights_file(path: Path) -> dict[str, Any]:
    """What torch.save wrote to `path`, a dict of tensors and plain types, on the CPU; no code in it is run.

    Raises:
        CheckpointError: there is no such file, or it is damaged or no such dict.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: no such checkpoint file")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file leads the unpickler to
        raise CheckpointError(f"{path}: damaged or no checkpoint; use an earlier one of the run") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path}: not a checkpoint, but a {type(state).__name__}")
    return cast(dict[str, Any], state)


def is_training_state(state: dict[str, Any]) -> bool:
    """Whether a file's content is a checkpoint of this application, not bare weights."""
    return state.get("format") == FORMAT


def load_checkpoint(path: Path, needed_keys: Sequence[str] = ()) -> dict[str, Any]:
    """The state that `save_checkpoint` wrote, on the CPU.

    Raises:
        CheckpointError: there is no such file, it is damaged or not one of this application's, or lacks a key.
    """
    state = read_weights_file(path)
    check_training_state(state, path, needed_keys)
    return state


def check_training_state(state: dict[str, Any], path: Path, needed_keys: Sequence[str]) -> None:
    """Raise CheckpointError unless `state`, read from `path`, is a checkpoint that this version can use."""
    if not is_training_state(state):
        raise CheckpointError(f"{path}: not a checkpoint of this application")
    if state.get("format_version") not in READABLE_VERSIONS:
        raise CheckpointError(
            f"{path}: has format version {state.get('format_version')}, this version of the application reads "
            f"{' and '.join(map(str, READABLE_VERSIONS))}; update it"
        )
    missing = [key for key in needed_keys if key not in state]
    if missing:
        raise CheckpointError(f"{path}: lacks {', '.join(missing)}; use another checkpoint of the run")


def remove_old_checkpoints(run_folder: Path, keep: int) -> None:
    """Delete all but the newest `keep` checkpoints; 0 keeps all."""
    for path in list_checkpoints(run_folder)[:-keep] if keep else []:
        path.unlink()


def _serialize(state: dict[str, Any], file: IO[bytes]) -> None:
    """torch.save, but a full disk is the OSError that it is: torch's writer hides it behind a RuntimeError."""
    try:
        torch.save(state, file)
    except RuntimeError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__context__
        raise (cause or error) from None


def _sync_folder(folder: Path) -> None:
    """Make a rename in `folder` outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
