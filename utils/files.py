"""Files: written completely or not at all, locked, hashed, and paths as users write them. Imports nothing slow."""

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
_REFUSALS |= {errno.EACCES, errno.EPERM}  # some folders can be written to, but not opened
_unsynced: list[Path] = []  # folder that this process has warned of


def temporary_path(path: Path) -> Path:
    """Return the path that a file has until it is complete."""
    name = os.fsdecode(os.fsencode(path.name)[:240])  # names may have 255 bytes
    return path.with_name(f".{name}.writing")


@contextmanager
def path_in_errors(path: Path) -> Iterator[None]:
    """Name `path` in an OSError without a file name, for example of a full disk, or with the temporary path."""
    try:
        yield
    except OSError as error:
        if error.errno and (error.filename is None or str(error.filename) == str(temporary_path(path))):
            error.filename = str(path)
        raise


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder, and rename that file to `path` at the end; create missing folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        with path_in_errors(path):
            yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def unreplaced(path: Path, read: Callable[[], T]) -> T:
    """Return the result of `read`. Call it again if another process has replaced `path` meanwhile."""
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
    with suppress(FileNotFoundError):
        if path.is_file():
            state = path.stat()
            return state.st_ino, state.st_size, state.st_mtime_ns
    return None


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that a rename in it survives a power cut; raise OSError if the disk fails or is full.

    Windows cannot sync folders. Some file systems refuse, such as CIFS, DrvFs and some FUSE file systems: a warning.
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
    """Hold a lock file until this process ends in any way; raise `refusal` if another process holds it."""
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


def expanded(path: str | Path, setting: str) -> Path:
    """Return a path with the home folder instead of `~` or `~USER`.

    setting: Setting, option or environment variable that holds the path, for messages.

    Raises:
        ConfigError: There is no such home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        remedy = "write the path in full, or set the environment variable HOME"
        raise ConfigError(f"{setting} is {path}, and there is no such home folder; {remedy}") from error


def without_dots(path: Path) -> Path:
    """Return an absolute path without `..`, for comparisons. Links behind the last `..` stay: they name results."""
    parts = path.absolute().parts
    n_resolved = max((number for number, part in enumerate(parts, 1) if part == ".."), default=0)
    return Path(*parts[:n_resolved]).resolve() / Path(*parts[n_resolved:])


def data_root_problem(root: str) -> str | None:
    """Return why `root` is no folder of a data set, with the remedy, or None if it is one."""
    if "://" in root:  # not shown, because it may hold a password
        return "data.root: is an address. Mount it, and name the folder (docs/shards.md): data.root=FOLDER."
    folder = expanded(root, "data.root")
    if folder.is_file():
        return f"data.root: is a file: {root}. Name its folder: data.root=FOLDER."
    return None if folder.is_dir() else f"data.root: no such folder: {root}. Set data.root=FOLDER."
