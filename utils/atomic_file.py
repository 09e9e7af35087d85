"""Files that are at any instant whole or not there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def temporary_path(path: Path) -> Path:
    """Where a file lies until it is whole."""
    return path.with_name(f".{path.name}.writing")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path`, in a folder that is made, to write to; what was written takes its place at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
