"""Points of saving where tests make the process die or the disk fail."""

from pathlib import Path


def reached(point: str, path: Path) -> None:
    """Do nothing; tests replace this function to inject a fault at a point.

    point: "written", the content of the file is with the system; "synced", it is on the disk under a temporary name;
        "renamed", it has its name; "unlisted", the manifest of a checkpoint that is to be removed is gone.
    path: the file that is written or removed.
    """
