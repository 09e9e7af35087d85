"""One process trains in a run's folder at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from utils.errors import UserError


class RunLockedError(UserError):
    """Another process trains in the folder."""


@contextmanager
def run_lock(run_folder: Path) -> Iterator[None]:
    """Hold the lock of a run, a file beside its folder, which the system releases when the process ends in any way.

    Raises:
        RunLockedError: another process holds it.
        OSError: the folder above cannot be made or written to.
    """
    run_folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(run_folder.with_name(f".{run_folder.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise RunLockedError(
            f"{run_folder}: another process is training this run: wait for it, or choose another run.name"
        ) from error
    try:
        yield
    finally:
        lock.release()
