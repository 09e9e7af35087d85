"""A lock between processes, which the system releases when the process that holds it ends in any way."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from utils.errors import UserError


@contextmanager
def locked(path: Path, refusal: UserError) -> Iterator[None]:
    """Hold the lock that a file stands for.

    refusal: Error to raise if another process holds the lock.

    Raises:
        OSError: The file cannot be created.
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise refusal from error
    try:
        yield
    finally:
        lock.release()
