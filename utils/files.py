"""Files: atomic writes, locks, digests, and paths from users. Imports nothing slow."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from utils.errors import ConfigError, UserError
from utils.log import logger

T = TypeVar("T")

_REFUSALS = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOTTY, errno.EBADF, errno.EISDIR}
_REFUSALS |= {errno.EACCES, errno.EPERM}  # some folders are writable but cannot be opened
_unsynced: list[Path] = []  # the folder that this process has warned about; it warns only once


def temporary_path(path: Path) -> Path:
    """Return the path of the temporary file that `replacing` renames to `path`."""
    name = os.fsdecode(os.fsencode(path.name)[:240])  # names can have up to 255 bytes
    return path.with_name(f".{name}.writing")


@contextmanager
def path_in_errors(path: Path) -> Iterator[None]:
    """Add the name of `path` to an OSError that names no file, or only the temporary file of `path`."""
    try:
        yield
    except OSError as error:
        if error.errno and (error.filename is None or str(error.filename) == str(temporary_path(path))):
            error.filename = str(path)
        raise


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`. On exit, rename this file to `path`. Create missing folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        with path_in_errors(path):
            yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def unreplaced(path: Path, read: Callable[[], T]) -> T:
    """Return the result of `read`. If another process replaces `path` during the call, call `read` again."""
    while True:
        before = _state(path)
        try:
            result = read()
        except Exception:
            if _state(path) == before:
                raise
        else:
            if _state(path) in (before, None):  # None: the file was deleted, but the result is valid
                return result


def _state(path: Path) -> tuple[int, ...] | None:
    with suppress(FileNotFoundError):
        if path.is_file():
            state = path.stat()
            return state.st_ino, state.st_size, state.st_mtime_ns
    return None


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that renamed files survive a power cut. Raise OSError if the disk fails or is full.

    Do nothing on Windows. Log a warning if the file system (CIFS, DrvFs, sometimes FUSE) cannot sync folders.
    """
    if os.name == "nt":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        if not _unsynced:
            _unsynced.append(folder)
            text = "%s: its file system cannot sync folders (%s). A power cut may undo the latest checkpoint."
            logger.warning(text, folder, error.strerror)


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(path: Path, refusal: UserError) -> Iterator[None]:
    """Hold a lock file. The lock ends if this process is killed. Raise `refusal` if another process holds it."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise refusal from error
    try:
        yield
    finally:
        lock.release()


def fault_point(point: str, path: Path) -> None:
    """Do nothing. Tests replace this function to kill the process or to simulate a disk error.

    point: "written": the file is written. "synced": the temporary file is on the disk. "renamed": the file has its
        final name. "unlisted": the manifest of a checkpoint is deleted, but not yet the checkpoint.
    """


def expanded(path: str | Path, setting: str) -> Path:
    """Replace `~` or `~USER` in a path with the home folder.

    setting: Setting, option or environment variable with the path, for messages.

    Raises:
        ConfigError: There is no such home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        remedy = "write the path in full, or set the environment variable HOME"
        raise ConfigError(f"{setting} is {path}, and there is no such home folder; {remedy}") from error


def without_dots(path: Path) -> Path:
    """Return an absolute path without `..`, for comparisons. Symbolic links after the last `..` stay."""
    parts = path.absolute().parts
    n_resolved = max((number for number, part in enumerate(parts, 1) if part == ".."), default=0)
    return Path(*parts[:n_resolved]).resolve() / Path(*parts[n_resolved:])


def data_root_problem(root: str) -> str | None:
    """Return why `root` is not a folder, with the remedy, or None if it is a folder."""
    if "://" in root:  # the message omits the address, which may contain a password
        return "data.root: is an address. Mount it, and name the folder (docs/shards.md): data.root=FOLDER."
    folder = expanded(root, "data.root")
    if folder.is_file():
        return f"data.root: is a file: {root}. Name its folder: data.root=FOLDER."
    return None if folder.is_dir() else f"data.root: no such folder: {root}. Set data.root=FOLDER."
