"""Checkpoint files: written so that no crash can lose one, read without running any code from them."""

import hashlib
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, cast

import torch

from utils import instants
from utils.atomic_file import replacing
from utils.errors import UserError

FORMAT = "pairgan-training"
FORMAT_VERSION = 2
READABLE_VERSIONS = (1, 2)  # 1 keeps the optimizers' state by position, 2 by parameter name

_FOREIGN = {  # what lies in the place of a checkpoint, by how it begins
    b"version https://git-lfs": "a Git LFS pointer, not the file itself: fetch it with git lfs pull",
    b"<": "a web page, not a checkpoint: download the file again",
    b"{": "a text file, not a checkpoint: name another file",
}


class CheckpointError(UserError):
    """A checkpoint cannot be used; the message names the file, the reason and the way out."""


class DamagedCheckpointError(CheckpointError):
    """The file is not what was once written: an earlier one can take its place."""


def manifest_path(path: Path) -> Path:
    """Where the manifest of a checkpoint lies: its size, digest, step and settings as JSON."""
    return path.with_name(f"{path.name}.json")


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a run's `state`, tensors and plain types only, so that `path` is at any instant whole or not there.

    Its manifest follows. A file without one, after a crash between the two, is whole as well.

    Raises:
        OSError: the disk is full or not writable, with the path; what `path` held before is still there.
    """
    manifest = manifest_path(path)
    content = {"format": FORMAT, "format_version": FORMAT_VERSION, **state}
    sha256, n_bytes = _write_whole(
        path, lambda file: _serialize(content, file), before_it_counts=lambda: manifest.unlink(missing_ok=True)
    )
    facts: dict[str, Any] = {
        "file": path.name,
        "sha256": sha256,
        "bytes": n_bytes,
        "format_version": FORMAT_VERSION,
        "torch": str(torch.__version__),
        **{key: state[key] for key in ("step", "epoch", "config") if key in state},
        "processes": len(state.get("random_states", [0])),
    }
    text = json.dumps(facts, indent=2) + "\n"
    _write_whole(manifest, lambda file: file.write(text.encode()))


def write_weights_file(path: Path, state: dict[str, Any]) -> None:
    """Write what `read_weights_file` reads, at any instant whole or not there, and the folders above it.

    Raises:
        OSError: as `save_checkpoint`.
    """
    _write_whole(path, lambda file: _serialize(state, file))


def read_weights_file(path: Path) -> dict[str, Any]:
    """What torch.save wrote to `path`, a dict of tensors and plain types, on the CPU; no code in it is run.

    Raises:
        CheckpointError: there is no such file, or it is damaged, no such dict, or holds more than tensors.
    """
    is_whole = check_file(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, MemoryError) as error:
        raise CheckpointError(f"{path}: cannot be read now: {str(error) or 'too little memory'}; try again") from error
    except pickle.UnpicklingError as error:
        raise DamagedCheckpointError(
            f"{path}: damaged or no checkpoint: it holds more than tensors and plain types, which could run code and "
            "is refused; use an earlier one of the run, or another file"
        ) from error
    except Exception as error:  # whatever a damaged file leads the unpickler to
        if is_whole:
            raise CheckpointError(f"{path}: is whole, but cannot be loaded: {error}; try again") from error
        raise DamagedCheckpointError(
            f"{path}: damaged or no checkpoint; use an earlier one of the run, or another file"
        ) from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path}: not a checkpoint, but a {type(state).__name__}; name another file")
    if is_training_state(state) and not is_whole:
        _check_records(path)
    return cast(dict[str, Any], state)


def is_training_state(state: dict[str, Any]) -> bool:
    """Whether a file's content is a checkpoint of this application, not bare weights."""
    return isinstance(state.get("format"), str) and state["format"] == FORMAT


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
        raise CheckpointError(f"{path}: not a checkpoint of this application; name another file")
    if state.get("format_version") not in READABLE_VERSIONS:
        raise CheckpointError(
            f"{path}: has format version {state.get('format_version')}, this version of the application reads "
            f"{' and '.join(map(str, READABLE_VERSIONS))}; update it"
        )
    missing = [key for key in needed_keys if key not in state]
    if missing:
        raise CheckpointError(f"{path}: lacks {', '.join(missing)}; use another checkpoint of the run")


def check_file(path: Path) -> bool:
    """Raise CheckpointError where a file cannot be what was written, as far as can be told before it is read.

    Returns whether a manifest says that it is; one that is itself damaged counts for none.
    """
    if path.is_dir():
        raise CheckpointError(f"{path}: a folder, not a checkpoint file; name a file in it")
    if not path.is_file():
        raise CheckpointError(f"{path}: no such checkpoint file")
    is_whole = _matches_manifest(path)
    with path.open("rb") as file:
        beginning = file.read(64).lstrip()
    if not beginning:
        raise DamagedCheckpointError(f"{path}: damaged or no checkpoint: it is empty; use an earlier one of the run")
    for prefix, what in _FOREIGN.items():
        if beginning.startswith(prefix):
            raise DamagedCheckpointError(f"{path}: damaged or no checkpoint: {what}")
    if beginning.startswith(b"PK"):
        _check_container(path)
    return is_whole


class _HashedFile:
    """A file for writing that knows the digest of what it was given."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.n_bytes = 0

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        self.n_bytes += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def _write_whole(
    path: Path, write: Callable[[IO[bytes]], object], *, before_it_counts: Callable[[], object] = lambda: None
) -> tuple[str, int]:
    """Fill a file beside `path` and rename it, so that it is at any instant whole or not there.

    Returns the SHA-256 of its content and its bytes.

    before_it_counts: called when the content is safe on the disk and not yet under its name.
    """
    try:
        with replacing(path) as temporary:
            with temporary.open("wb") as file:
                hashed = _HashedFile(file)
                write(cast(IO[bytes], hashed))
                file.flush()
                instants.reached("written", path)
                os.fsync(file.fileno())
            instants.reached("synced", path)
            before_it_counts()
        instants.reached("renamed", path)
        _sync_folder(path.parent)
    except OSError as error:
        free = shutil.disk_usage(path.parent).free
        raise OSError(error.errno, f"{error.strerror} ({free:,} bytes are free)", str(path)) from error
    return hashed.hexdigest(), hashed.n_bytes


def _matches_manifest(path: Path) -> bool:
    """Whether a file is what its manifest says; an error where it differs, False where there is none to be read."""
    manifest = manifest_path(path)
    try:
        facts = json.loads(manifest.read_text(encoding="utf-8"))
        n_bytes, sha256 = facts["bytes"], facts["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    found = path.stat().st_size
    if found == n_bytes and _sha256(path) == sha256:
        return True
    size = f" ({found} bytes instead of {n_bytes})" if found != n_bytes else ""
    raise DamagedCheckpointError(
        f"{path}: damaged: it is not what {manifest.name} says that was written{size}; use an earlier checkpoint"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_container(path: Path) -> None:
    """torch.save stores its records as they are: what is packed or larger than its file is no work of it."""
    try:
        with zipfile.ZipFile(path) as archive:
            records = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise DamagedCheckpointError(
            f"{path}: damaged or no checkpoint: its directory cannot be read; use an earlier one of the run"
        ) from error
    is_packed = any(record.compress_type != zipfile.ZIP_STORED for record in records)
    if is_packed or sum(record.file_size for record in records) > path.stat().st_size:
        raise DamagedCheckpointError(f"{path}: damaged or no checkpoint: it is packed, and refused; name another file")


def _check_records(path: Path) -> None:
    """Compare a checkpoint that has no manifest with the checksums of its own records."""
    with zipfile.ZipFile(path) as archive:
        try:
            damaged = archive.testzip()
        except (zipfile.BadZipFile, EOFError, OSError, ValueError) as error:
            damaged = str(error)
    if damaged:
        raise DamagedCheckpointError(f"{path}: damaged at {damaged}; use an earlier checkpoint of the run")


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
