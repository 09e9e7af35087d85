"""Writing files that other processes, and the next start after a crash, see complete or not at all."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def temporary_path(path: Path) -> Path:
    """Return the path that a file has until it is complete."""
    return path.with_name(f".{path.name}.writing")


@contextmanager
def path_in_errors(path: Path) -> Iterator[None]:
    """Add `path` to an OSError that names no file, such as that of a full disk, or its temporary path."""
    try:
        yield
    except OSError as error:
        if error.errno and (error.filename is None or str(error.filename) == str(temporary_path(path))):
            error.filename = str(path)
        raise


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to, and rename that file to `path` at the end.

    Missing folders are created. After an error `path` is as it was, and the temporary file is deleted.
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
    """Return what `read` returns of `path` and files beside it; call it again if another process has replaced `path`.

    Raises:
        Exception: that of `read`, where the file has stayed.
    """
    while True:
        before = _state(path)
        try:
            result = read()
        except Exception:
            if _state(path) == before:
                raise
        else:
            if _state(path) in (before, None):  # what was read before it was deleted is valid
                return result


def _state(path: Path) -> tuple[int, ...] | None:
    """Return what differs once a file has been replaced; None where there is none."""
    if path.is_file():
        with suppress(FileNotFoundError):
            state = path.stat()
            return state.st_ino, state.st_size, state.st_mtime_ns
    return None
