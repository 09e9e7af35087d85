"""Named instants of writing and removing files, at which tests can let a process fail."""

from pathlib import Path


def reached(name: str, path: Path) -> None:
    """Mark that `path` is "written", "synced", "renamed" or "removed"; does nothing unless a test replaces it."""
