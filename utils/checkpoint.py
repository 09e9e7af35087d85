"""Checkpoint files: written so that no crash loses one, read without running code from them."""

import errno
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import torch

from utils import files
from utils.checkpoint_form import content_fault, training_fault
from utils.errors import UserError
from utils.files import path_in_errors, replacing, sha256_of_file, sync_folder, unreplaced
from utils.plain_values import read_json
from utils.torch_private import is_refused_type, is_system_error

FORMAT = "pairgan-training"
FORMAT_VERSION = 3

MOST_NAMED = 8  # checkpoints in a message
_REMEDY = "use another file"


class CheckpointError(UserError):
    """A checkpoint cannot be used; the message names the file, the reason and the remedy."""


class DamagedCheckpointError(CheckpointError):
    """A file is damaged; an earlier checkpoint can replace it."""


class MissingCheckpointError(CheckpointError):
    """There is no such file. A training may have deleted it."""


def manifest_path(path: Path) -> Path:
    """Return the path of a checkpoint's manifest: its size, digest, step and settings as JSON."""
    return path.with_name(f"{path.name}.json")


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a run's `state` (tensors and plain types) atomically, then its manifest.

    A crash between the two leaves a valid checkpoint without a manifest.

    Raises:
        OSError: The disk is full or not writable. The earlier content of the path is untouched.
    """
    manifest = manifest_path(path)
    content = {"format": FORMAT, "format_version": FORMAT_VERSION, **state}
    _write_atomically(
        path, lambda file: _serialize(content, file), before_it_counts=lambda: manifest.unlink(missing_ok=True)
    )
    facts: dict[str, Any] = {
        "file": path.name,
        "sha256": sha256_of_file(path),
        "bytes": path.stat().st_size,
        "format_version": FORMAT_VERSION,
        "torch": str(torch.__version__),
        **{key: state[key] for key in ("step", "epoch", "config") if key in state},
        "processes": len(state.get("random_states", [0])),
    }
    text = json.dumps(facts, indent=2) + "\n"
    _write_atomically(manifest, lambda file: file.write(text.encode()))


def write_weights_file(path: Path, state: dict[str, Any]) -> None:
    """Write a file that `read_weights_file` reads, atomically; missing folders are created.

    Raises:
        OSError: as for `save_checkpoint`.
    """
    _write_atomically(path, lambda file: _serialize(state, file))


def read_weights_file(path: Path, *, checks_content: bool = True) -> dict[str, Any]:
    """Return the dict of tensors and plain types that torch.save wrote to `path`, on the CPU; no code in it is run.

    The tensors of a checkpoint of this application stay in the file, and the system reads only those that are used.
    Copy them, and do not keep them: while one exists, the file takes its space and Windows cannot replace it.

    checks_content: Read the whole file to compare the tensors with their checksums.

    Raises:
        CheckpointError: The file is missing, damaged, holds no dict, or holds other types.
    """
    return unreplaced(path, lambda: _read(path, checks_content=checks_content))


def _read(path: Path, *, checks_content: bool) -> dict[str, Any]:
    if path.is_dir():
        raise CheckpointError(f"{path}: a folder, not a checkpoint file; name a file in it")
    if not path.is_file():
        raise MissingCheckpointError(f"{path}: no such checkpoint file{checkpoints_beside(path)}")
    is_verified = _matches_manifest(path, checks_content=checks_content)
    with path.open("rb") as file:
        is_archive = file.read(2) == b"PK"
    if is_archive:
        _check_container(path)
    try:
        state = _load(path)
    except Exception as error:  # a damaged file can make the unpickler raise anything
        raise _unreadable(path, error, is_verified=is_verified) from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path}: not a checkpoint, but a {type(state).__name__}; {_REMEDY}")
    fault = content_fault(state, path.stat().st_size)
    if not fault and is_training_state(state):
        if checks_content and not is_verified:
            _check_records(path)
        fault = training_fault(state)
    if fault:
        raise CheckpointError(f"{path}: ill-formed: {fault}; {_REMEDY}")
    return cast(dict[str, Any], state)


def _load(path: Path) -> object:
    with suppress(RuntimeError):  # some file systems map no files, and torch's older format cannot be mapped
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        if isinstance(state, dict) and is_training_state(state):
            return state  # other programs write their files in place, while they may be mapped
    return cast(object, torch.load(path, map_location="cpu", weights_only=True))


def _unreadable(path: Path, error: Exception, *, is_verified: bool) -> CheckpointError:
    """Return the error for a file that torch.load cannot read; a damaged file only if nothing else explains it."""
    if is_system_error(error):
        return CheckpointError(f"{path}: cannot be read now: {str(error) or 'too little memory'}; try again")
    if is_verified:
        return CheckpointError(f"{path}: matches its manifest, but cannot be loaded: {error}; try again")
    with path.open("rb") as file:
        beginning = file.read(1024)
    if beginning and not any(byte < 9 or 13 < byte < 32 or byte == 127 for byte in beginning):
        what = "not a checkpoint, but text, such as a web page or a Git LFS pointer"
    else:
        what = "damaged or not a checkpoint"
        if is_refused_type(error):
            what += ": holds more than tensors and plain types, which could run code, and is refused"
    return DamagedCheckpointError(f"{path}: {what}; {_REMEDY}")


def is_training_state(state: dict[str, Any]) -> bool:
    """Return whether a file's content is a checkpoint of this application, not bare weights."""
    return isinstance(state.get("format"), str) and state["format"] == FORMAT


def load_checkpoint(path: Path, *, checks_content: bool = True) -> dict[str, Any]:
    """Return the state that `save_checkpoint` wrote, as `read_weights_file` does.

    Raises:
        CheckpointError: the file is missing, damaged, or not of this application.
    """
    state = read_weights_file(path, checks_content=checks_content)
    check_training_state(state, path, needed_keys=())
    return state


def check_training_state(state: dict[str, Any], path: Path, needed_keys: Sequence[str]) -> None:
    """Raise CheckpointError unless `state`, read from `path`, is a checkpoint that this version can use.

    needed_keys: Keys that it must have, such as `config`, or `networks.generator` for nested keys.
    """
    if not is_training_state(state):
        raise CheckpointError(f"{path}: not a checkpoint of this application; name another file")
    version = state.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        remedy = "Resume its run once with version 1.0.0, which writes 3." if version in (1, 2) else "Update it."
        raise CheckpointError(
            f"{path}: has format version {version}, this version of the application reads {FORMAT_VERSION}. {remedy}"
        )
    missing = [key for key in needed_keys if not _has(state, key)]
    if missing:
        raise CheckpointError(f"{path}: lacks {', '.join(missing)}; use another checkpoint of the run")


def _has(state: object, key: str) -> bool:
    """Return whether nested dicts have a key, whose levels dots separate."""
    for part in key.split("."):
        if not isinstance(state, dict) or part not in state:
            return False
        state = state[part]
    return True


def checkpoints_beside(path: Path) -> str:
    """Return the end of a message on a missing checkpoint: the best and the latest in its folder; or nothing."""
    names = sorted((manifest.stem for manifest in path.parent.glob("*.pt.json")), reverse=True)
    names.sort(key=lambda name: name.startswith("checkpoint-"))  # after best.pt
    left = ", …" if len(names) > MOST_NAMED else ""
    return f"; checkpoints in {path.parent}: {', '.join(names[:MOST_NAMED])}{left}" if names else ""


def _write_atomically(
    path: Path, write: Callable[[IO[bytes]], object], *, before_it_counts: Callable[[], object] = lambda: None
) -> None:
    """Write a file next to `path`, sync it to the disk, and rename it.

    before_it_counts: Called when the content is on the disk, but does not have its name yet.
    """
    try:
        with replacing(path) as temporary:
            with temporary.open("wb") as file:
                write(file)
                file.flush()
                files.fault_point("written", path)
                os.fsync(file.fileno())
            before_it_counts()
            files.fault_point("synced", path)
        files.fault_point("renamed", path)
        sync_folder(path.parent)
    except OSError as error:
        free = shutil.disk_usage(path.parent).free
        raise OSError(error.errno, f"{error.strerror} ({free:,} bytes are free)", str(path)) from error


def listed_digest(path: Path) -> tuple[int, str] | None:
    """Return the bytes and the SHA-256 of a checkpoint by its manifest; None without a readable one."""
    try:
        facts = read_json(manifest_path(path).read_text(encoding="utf-8"))
        return facts["bytes"], str(facts["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _matches_manifest(path: Path, *, checks_content: bool) -> bool:
    """Return True if a file matches its manifest, False without a readable one; raise if they differ."""
    listed, n_bytes = listed_digest(path), path.stat().st_size
    if listed is None:
        return False
    if n_bytes == listed[0] and (not checks_content or sha256_of_file(path) == listed[1]):
        return True
    size = f" ({n_bytes} bytes instead of {listed[0]})" if n_bytes != listed[0] else ""
    name = manifest_path(path).name
    raise DamagedCheckpointError(f"{path}: damaged: it does not match {name}{size}; use an earlier checkpoint")


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive. Raise BadZipFile if the system refuses a position that only a damaged directory has."""
    try:
        with path_in_errors(path), zipfile.ZipFile(path) as archive:
            yield archive
    except OSError as error:
        if error.errno != errno.EINVAL:  # EIO and EMFILE, for example, are no damage
            raise
        raise zipfile.BadZipFile(error.strerror) from error


def _check_container(path: Path) -> None:
    """Raise DamagedCheckpointError unless a file is an uncompressed archive, as torch.save writes: no zip bomb."""
    try:
        with _archive(path) as archive:
            records = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise DamagedCheckpointError(f"{path}: damaged or not a checkpoint: {error}; {_REMEDY}") from error
    is_packed = any(record.compress_type != zipfile.ZIP_STORED for record in records)
    if is_packed or sum(record.file_size for record in records) > path.stat().st_size:
        raise DamagedCheckpointError(f"{path}: damaged or not a checkpoint: it is compressed; {_REMEDY}")


def _check_records(path: Path) -> None:
    """Raise if a checkpoint does not match the checksums of its own records, for lack of a manifest."""
    try:
        with _archive(path) as archive:
            damaged = archive.testzip()
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        damaged = str(error)
    if damaged:
        raise DamagedCheckpointError(f"{path}: damaged at {damaged}; {_REMEDY}")


def _serialize(state: dict[str, Any], file: IO[bytes]) -> None:
    """Call torch.save, and raise the OSError of a full disk, which torch's writer turns into a RuntimeError."""
    try:
        torch.save(state, file)
    except RuntimeError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__context__
        raise (cause or error) from None
