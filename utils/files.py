"""Files: written completely or not at all, locked, and hashed. Imports nothing slow."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from utils.errors import UserError
from utils.log import logger

T = TypeVar("T")

_REFUSALS = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOTTY, errno.EBADF, errno.EISDIR}
_REFUSALS |= {errno.EACCES, errno.EPERM}  # some folders can be written to, but not opened
_LONGEST_NAME = 240  # bytes
_unsynced: list[Path] = []  # folder that this process has warned of


def temporary_path(path: Path) -> Path:
    """Return the path that a file has until it is complete. A long name is cut, since file systems take 255 bytes."""
    name = os.fsdecode(os.fsencode(path.name)[:_LONGEST_NAME])
    return path.with_name(f".{name}.writing")


@contextmanager
def path_in_errors(path: Path) -> Iterator[None]:
    """Add `path` to an OSError that names no file or the temporary path. A full disk, for example, names no file."""
    try:
        yield
    except OSError as error:
        if error.errno and (error.filename is None or str(error.filename) == str(temporary_path(path))):
            error.filename = str(path)
        raise


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder to write to, and rename that file to `path` at the end.

    Missing folders are created. After an error `path` is unchanged, and the temporary file is deleted.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        with path_in_errors(path):
            yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def unreplaced(path: Path, read: Callable[[], T]) -> T:
    """Return the result of `read`, which is called again if another process has replaced `path` meanwhile.

    Raises:
        Exception: `read` fails although the file is unchanged.
    """
    while True:
        before = _state(path)
        try:
            result = read()
        except Exception:
            if _state(path) == before:
                raise
        else:
            if _state(path) in (before, None):  # a result from before the deletion is valid
                return result


def _state(path: Path) -> tuple[int, ...] | None:
    """Return the identity, size and time of a file, or None if there is none."""
    if path.is_file():
        with suppress(FileNotFoundError):
            state = path.stat()
            return state.st_ino, state.st_size, state.st_mtime_ns
    return None


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that a rename in it survives a power cut; Windows opens no folders.

    Some file systems refuse this, such as CIFS, DrvFs and some FUSE file systems. Their files are complete all the
    same, so a process only warns, once.

    Raises:
        OSError: The disk fails or is full.
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
    """Hold a lock file. The system releases it when this process ends in any way.

    refusal: Error to raise if another process holds the lock.

    Raises:
        OSError: The file cannot be created.
    """
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
    """Do nothing. Tests replace this function to kill the process or to let the disk fail.

    point: "written": the system has the content of the file. "synced": the disk has it, under a temporary name.
        "renamed": it has its name. "unlisted": the manifest of a checkpoint that will be removed is gone.
    """
