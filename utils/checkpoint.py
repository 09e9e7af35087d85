"""Checkpoint files. Writing is atomic, and reading runs no code from the file."""

import errno
import json
import math
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch import Tensor

from utils import files
from utils.errors import UserError
from utils.files import path_in_errors, replacing, sha256_of_file, sync_folder, unreplaced
from utils.plain_values import NestingError, distinct_values, plain_parts, read_json
from utils.torch_private import is_refused_type, is_system_error

FORMAT = "pairgan-training"
FORMAT_VERSION = 3

MOST_NAMED = 8  # largest number of checkpoints that a message names
MOST_VALUES = 10**6
MOST_TENSORS = 20_000  # tensors of a network; the deepest network that the settings allow has about 8,000
_REMEDY = "use another file"


class CheckpointError(UserError):
    """A checkpoint cannot be used. The message names the file, the reason and the remedy."""


class DamagedCheckpointError(CheckpointError):
    """A checkpoint is damaged. An earlier checkpoint may be valid."""


class MissingCheckpointError(CheckpointError):
    """A checkpoint does not exist. A run in progress may have deleted the file."""


def manifest_path(path: Path) -> Path:
    """Return the path of a checkpoint's manifest, a JSON file with the checkpoint's size, digest, step and settings."""
    return path.with_name(f"{path.name}.json")


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a run's `state` (tensors and plain types) atomically, and then its manifest.

    A crash between the two writes leaves a valid checkpoint without a manifest.

    Raise OSError if the disk is full or not writable. The old file then stays unchanged.
    """
    manifest = manifest_path(path)
    content = {"format": FORMAT, "format_version": FORMAT_VERSION, **state}
    _write_atomically(path, lambda file: _serialize(content, file), outdated=manifest)
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
    """Write a file that `read_weights_file` reads, atomically. Raise OSError if the disk is full or not writable."""
    _write_atomically(path, lambda file: _serialize(state, file))


def read_weights_file(path: Path, *, checks_content: bool = True) -> dict[str, Any]:
    """Return the dict of tensors (on the CPU) and plain types in a file of torch.save. Run no code from the file.

    For checkpoints of this application, the tensors are memory-mapped: the system reads only the tensors that are used.
    Keep only copies of these tensors, because Windows cannot replace the file while a mapped tensor exists.

    checks_content: Whether to read the whole file and verify the checksums.

    Raises:
        CheckpointError: The file is missing or damaged, or its content is not a dict of tensors and plain types.
    """
    return unreplaced(path, lambda: _read(path, checks_content=checks_content))


def _read(path: Path, *, checks_content: bool) -> dict[str, Any]:
    if path.is_dir():
        raise CheckpointError(f"{path}: a folder, not a checkpoint file; name a file in this folder")
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
    fault = _content_fault(state, path.stat().st_size)
    if not fault and is_training_state(state):
        if checks_content and not is_verified:
            _check_records(path)
        fault = _training_fault(state)
    if fault:
        raise CheckpointError(f"{path}: ill-formed: {fault}; {_REMEDY}")
    return cast(dict[str, Any], state)


def _load(path: Path) -> object:
    with suppress(RuntimeError):  # some file systems, and torch's older file format, do not support mapping
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        if isinstance(state, dict) and is_training_state(state):
            return state  # map only our own files, because other programs may overwrite files in place
    return cast(object, torch.load(path, map_location="cpu", weights_only=True))


def _unreadable(path: Path, error: Exception, *, is_verified: bool) -> CheckpointError:
    """Return the error for a file that torch.load cannot read. The message names the likely cause."""
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
            what += ": refused, because it holds types that could run code"
    return DamagedCheckpointError(f"{path}: {what}; {_REMEDY}")


def is_training_state(state: dict[str, Any]) -> bool:
    """Return whether the content of a file is a checkpoint of this application, and not only weights."""
    return isinstance(state.get("format"), str) and state["format"] == FORMAT


def load_checkpoint(path: Path, *, checks_content: bool = True) -> dict[str, Any]:
    """Return the state that `save_checkpoint` wrote; see `read_weights_file`. Raise CheckpointError for other files."""
    state = read_weights_file(path, checks_content=checks_content)
    check_training_state(state, path, needed_keys=())
    return state


def check_training_state(state: dict[str, Any], path: Path, needed_keys: Sequence[str]) -> None:
    """Raise CheckpointError unless `state`, read from `path`, is a checkpoint that this version can use.

    needed_keys: Keys that `state` must have, such as `config`, or `networks.generator` for nested dicts.
    """
    if not is_training_state(state):
        raise CheckpointError(f"{path}: not a checkpoint of this application; name another file")
    version = state.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        remedy = "Resume its run once with version 1.0.0." if version in (1, 2) else "Update the application."
        raise CheckpointError(
            f"{path}: has format version {version}, but this application reads version {FORMAT_VERSION}. {remedy}"
        )
    missing = [key for key in needed_keys if not _has(state, key)]
    if missing:
        raise CheckpointError(f"{path}: lacks {', '.join(missing)}; use another checkpoint of the run")


def _has(state: object, key: str) -> bool:
    """Return whether nested dicts have a key such as `networks.generator`."""
    first, _, rest = key.partition(".")
    return isinstance(state, dict) and first in state and (not rest or _has(state[first], rest))


def checkpoints_beside(path: Path) -> str:
    """Return a text that names the best and the latest checkpoints in the folder of a missing checkpoint."""
    names = sorted((manifest.stem for manifest in path.parent.glob("*.pt.json")), reverse=True)
    names.sort(key=lambda name: name.startswith("checkpoint-"))  # best.pt comes first
    left = ", …" if len(names) > MOST_NAMED else ""
    return f"; checkpoints in {path.parent}: {', '.join(names[:MOST_NAMED])}{left}" if names else ""


def _write_atomically(path: Path, write: Callable[[IO[bytes]], object], *, outdated: Path | None = None) -> None:
    """Write a temporary file next to `path`, sync the file to the disk, delete `outdated`, and rename the new file."""
    try:
        with replacing(path) as temporary:
            with temporary.open("wb") as file:
                write(file)
                file.flush()
                files.fault_point("written", path)
                os.fsync(file.fileno())
            if outdated:
                outdated.unlink(missing_ok=True)
            files.fault_point("synced", path)
        files.fault_point("renamed", path)
        sync_folder(path.parent)
    except OSError as error:
        free = shutil.disk_usage(path.parent).free
        raise OSError(error.errno, f"{error.strerror} ({free:,} bytes are free)", str(path)) from error


def listed_digest(path: Path) -> tuple[int, str] | None:
    """Return the size and SHA-256 of a checkpoint from its manifest, or None without a readable manifest."""
    try:
        facts = read_json(manifest_path(path).read_text(encoding="utf-8"))
        return facts["bytes"], str(facts["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _matches_manifest(path: Path, *, checks_content: bool) -> bool:
    """Return True if a file matches its manifest, False without a readable manifest. Raise an error if they differ."""
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
    """Open a zip archive. Raise BadZipFile if its table of contents is wrong."""
    try:
        with path_in_errors(path), zipfile.ZipFile(path) as archive:
            yield archive
    except OSError as error:
        if error.errno != errno.EINVAL:  # other errors, such as EMFILE, do not mean a damaged file
            raise
        raise zipfile.BadZipFile(error.strerror) from error


def _check_container(path: Path) -> None:
    """Raise DamagedCheckpointError unless a file is an uncompressed archive. This refuses zip bombs."""
    try:
        with _archive(path) as archive:
            records = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise DamagedCheckpointError(f"{path}: damaged or not a checkpoint: {error}; {_REMEDY}") from error
    is_packed = any(record.compress_type != zipfile.ZIP_STORED for record in records)
    if is_packed or sum(record.file_size for record in records) > path.stat().st_size:
        raise DamagedCheckpointError(f"{path}: damaged or not a checkpoint: it is compressed; {_REMEDY}")


def _check_records(path: Path) -> None:
    """Raise DamagedCheckpointError if a checkpoint does not match the checksums in its archive."""
    try:
        with _archive(path) as archive:
            damaged = archive.testzip()
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        damaged = str(error)
    if damaged:
        raise DamagedCheckpointError(f"{path}: damaged at {damaged}; {_REMEDY}")


def _serialize(state: dict[str, Any], file: IO[bytes]) -> None:
    """Call torch.save. If the disk is full, raise the original OSError instead of torch's RuntimeError."""
    try:
        torch.save(state, file)
    except RuntimeError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__context__
        raise (cause or error) from None


def _content_fault(state: object, n_bytes: int) -> str | None:
    """Return why the content of a file with `n_bytes` bytes is not safe, or None.

    All tensors together must not be larger than the file. A view that repeats one number could be larger.
    """
    n_tensor_bytes = n_expanded = 0
    try:
        for value, n_values in distinct_values(state, plain_parts):
            n_expanded = n_values
            if isinstance(value, Tensor):
                if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
                    return "it holds a tensor that is not dense"
                n_tensor_bytes += value.nbytes
    except NestingError as error:
        return f"{error}"
    if n_expanded > MOST_VALUES:
        return f"it expands to more than {MOST_VALUES} values"
    return "it holds tensors that are larger than the file" if n_tensor_bytes > n_bytes else None


def _training_fault(state: Mapping[str, Any]) -> str | None:
    """Return why no training run can have written this checkpoint, or None. Missing keys are allowed."""
    for value, _ in distinct_values(cast(object, state), plain_parts):
        if isinstance(value, dict) and not all(isinstance(key, str | int) for key in value):
            return "it holds a key that is neither a text nor a number"
        if not isinstance(value, dict | list | tuple | str | int | float | Tensor | None):
            return f"it holds a {type(value).__name__}"
        if isinstance(value, int) and abs(value) >= 2**63:
            return "it holds a whole number of more than 64 bits"
    wrong = [key for key, schema in _SCHEMA.items() if key in state and not _fits(state[key], schema)]
    return f"its {wrong[0]} has an unexpected type or shape" if wrong else None


def _fits(value: Any, schema: Any) -> bool:
    """Return whether `value` fits `schema`. Examples: float, _is_count, [float] (a list), {"step": int}, {str: int}."""
    if isinstance(schema, type):
        return isinstance(value, schema)
    if isinstance(schema, list):
        return isinstance(value, list | tuple) and all(_fits(item, schema[0]) for item in value)
    if isinstance(schema, dict) and str not in schema:
        return isinstance(value, dict) and all(_fits(value[key], schema[key]) for key in schema if key in value)
    if isinstance(schema, dict):
        return isinstance(value, dict) and all(type(k) is str and _fits(item, schema[str]) for k, item in value.items())
    return bool(schema(value))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31  # the settings have the same limit


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and not math.isnan(float(value))


def _is_patience(value: Any) -> bool:
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    return is_pair and (value[0] is None or _is_number(value[0])) and _is_count(value[1])


_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("step", "epoch", "samples_into_epoch", "n_samples"), _is_count),
    **{
        key: {str: lambda value: _fits(value, {str: Tensor}) and len(value) <= MOST_TENSORS}
        for key in ("networks", "averages")
    },
    **dict.fromkeys(("config", "method"), dict),
    "optimizers": {str: {"moments": {str: dict}, "scaler": {str: _is_number}, "skipped_steps": _is_count}},
    "random_states": [{str: Tensor}],
    "method_of_processes": [dict],
    "data": lambda value: value is None or (isinstance(value, Tensor) and value.dim() == 1),
    **{key: {str: _is_number} for key in ("plateau", "registered_losses")},
    "best": _is_number,
    "patience": _is_patience,
    "measured_on": {str: str},
}
