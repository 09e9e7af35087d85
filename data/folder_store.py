"""The store of a file system."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Literal

from data.batch import DataError
from data.store import Blob, Folder, Store
from utils.paths import data_root_problem, expanded
from utils.text import listed

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".ppm", ".bmp", ".tif", ".tiff", ".svs", ".webp"})
VIDEO_SUFFIXES = frozenset({".mp4", ".mov", ".mkv", ".avi", ".webm", ".m4v"})
HIDDEN = re.compile(  # names that begin with a dot, and folders that systems and NAS devices add
    r"(?i)/(\.|([#@$]recycle(\.bin)?|@(eadir|recently-snapshot)|[#~]snapshot|lost\+found|__macosx|system volume \w+)/)"
)
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class FolderStore(Store):
    """The files of this machine, by their paths."""

    @classmethod
    def opened(cls, root: str) -> Folder:
        """Return the folder that `data.root` names; `~` is the user's home.

        Raises:
            DataError: there is no such folder.
        """
        if problem := data_root_problem(root):
            raise DataError(problem)
        return Folder(cls(), expanded(root, "data.root"))

    def place(self, path: os.PathLike[str]) -> str:
        """Return the path."""
        return str(path)

    def list(self, folder: Folder) -> list[Blob]:
        """Return the files below a folder that are not hidden; links to folders are not followed.

        Broken links are files: their samples would otherwise be missing unnoticed.

        Raises:
            DataError: a folder cannot be listed.
        """

        def fail(error: OSError) -> None:
            raise DataError(f"{error.filename}: {error.strerror}")

        found, root = list[Blob](), Path(folder.path)
        for parent, folders, files in os.walk(root, onerror=fail if root.is_dir() else None):
            folders[:] = [name for name in folders if not is_hidden(name)]
            below = Path(parent).relative_to(root)
            for name in files:
                path = Path(parent, name)
                if not is_hidden(name) and (path.is_file() or not path.exists()):
                    found.append(LocalFile(folder, (below / name).as_posix()))
        return found

    def folders(self, folder: Folder) -> Sequence[str]:
        """See Store."""
        return [path.name for path in visible_entries(Path(folder.path)) if path.is_dir()] if self.has(folder) else []

    def has(self, folder: Folder) -> bool:
        """Return whether a path names a folder, which may be empty."""
        return Path(folder.path).is_dir()

    def absence(self, folder: Folder) -> str:
        """Return what is wrong with the path of a folder, and which folders are next to it."""
        path = Path(folder.path)
        beside = visible_entries(path.parent) if path.parent.is_dir() else []
        names = listed([other.name for other in beside if other.is_dir()], 8) or "none"
        what = "is a file, expected a folder" if path.exists() else "no such folder"
        remedy = ""
        if any(other.suffix == ".tar" for other in beside):
            remedy = f"; python -m tools.convert_data index-shards {path.parent} makes a data set of the tar files"
        elif any(other.suffix.lower() in IMAGE_SUFFIXES for other in beside):
            remedy = "; python -m tools.convert_data from-photos makes pairs of photographs"
        return f"{what}; folders beside it: {names}{remedy}"


class LocalFile(Blob):
    """A file of this machine."""

    @classmethod
    def of(cls, path: Path) -> Blob:
        """Return the file at a path."""
        return cls(local_folder(path.parent), path.name)

    def __str__(self) -> str:
        return str(self.path)

    @cached_property
    def path(self) -> Path:
        """Its path, made once: a sample is read many times."""
        return Path(self.folder.path, self.name)

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """See Blob."""
        return self.path.open(mode)

    def size(self) -> int:
        """See Blob."""
        return self.path.stat().st_size

    def state(self) -> str:
        """Return its path without links, its size, its time and its number in the file system."""
        path, state = self.path, self.path.stat()
        return f"{path.resolve()}:{state.st_size}:{state.st_mtime_ns}:{state.st_ino}"


def local_folder(folder: Folder | Path) -> Folder:
    """Return a folder of a store. A path names a folder of this machine."""
    return Folder(FolderStore(), folder) if isinstance(folder, Path) else folder


def is_hidden(name: str) -> bool:
    """Return whether a file or folder is no data: its name begins with a dot, or a system or a NAS has made it.

    Every list of images leaves these out. Otherwise thumbnails and deleted images would count as images.
    """
    return HIDDEN.search(f"/{name}/") is not None


def visible_entries(folder: Path) -> list[Path]:
    """Return the files and folders in a folder that are not hidden, sorted."""
    return sorted(path for path in folder.iterdir() if not is_hidden(path.name))
