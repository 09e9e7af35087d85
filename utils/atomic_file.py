"""Writing files that other processes, and the next start after a crash, see complete or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def temporary_path(path: Path) -> Path:
    """Return the path that a file has until it is complete."""
    return path.with_name(f".{path.name}.writing")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to, and rename that file to `path` at the end.

    Missing folders are created. After an error `path` is as it was, and the temporary file is deleted.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
