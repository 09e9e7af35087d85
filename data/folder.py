"""Folders of data sets and their files: the interface, and folders on the disks of this machine."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import BinaryIO, Literal, Protocol, Self

from data.batch import DataError
from utils.files import data_root_problem, expanded
from utils.text import listed

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".ppm", ".bmp", ".tif", ".tiff", ".svs", ".webp"})
VIDEO_SUFFIXES = frozenset({".mp4", ".mov", ".mkv", ".avi", ".webm", ".m4v"})
HIDDEN = re.compile(  # names that begin with a dot, and folders that systems and NAS devices add
    r"(?i)/(\.|([#@$]recycle(\.bin)?|@(eadir|recently-snapshot)|[#~]snapshot|lost\+found|__macosx|system volume \w+)/)"
)
SPLITS = ("train", "val", "test")


class File(Protocol):
    """A file that can be read: a Blob or a Path. `str` names it in messages."""

    @property
    def suffix(self) -> str:
        """The end of its name, from the last dot on."""
        ...

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Open it for reading."""
        ...


@dataclass(frozen=True)
class Blob(ABC):
    """A file of a data set. `str` names it in messages.

    folder: Folder that lists it.
    name: Path below that folder, with "/" between parts.
    """

    folder: "Folder"
    name: str

    def __str__(self) -> str:
        return str(self.folder / self.name)

    @property
    def suffix(self) -> str:
        """The end of its name, from the last dot on."""
        return PurePath(self.name).suffix

    @abstractmethod
    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """Open it for reading. The opened file can seek; a file on a disk has a descriptor (`fileno`).

        Raise OSError if the file is missing or cannot be read.
        """

    @abstractmethod
    def size(self) -> int:
        """Return its size in bytes; raises OSError as `open`."""

    @abstractmethod
    def state(self) -> str:
        """Return a text that changes when the file is written to or replaced, without reading it; raises OSError."""


@dataclass(frozen=True)
class Folder(ABC):
    """A folder of a data set. `str` names it in messages. Equal folders hold the same files."""

    path: PurePath

    def __truediv__(self, path: str) -> Self:
        return replace(self, path=self.path / path)

    def __str__(self) -> str:
        return str(self.path)

    @abstractmethod
    def files(self) -> Sequence[Blob]:
        """Return the files at any depth that are not hidden; none if the folder does not exist.

        Raise DataError if a folder cannot be listed.
        """

    @abstractmethod
    def folders(self) -> Sequence[str]:
        """Return the sorted names of the folders in this one that are not hidden; raises DataError as `files`."""

    def exists(self) -> bool:
        """Return whether the folder exists."""
        return bool(self.files())

    def absence(self) -> str:
        """Return the end of the message that the folder does not exist."""
        return "no such folder"


class LocalFolder(Folder):
    """A folder on a disk of this machine."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(Path(path))

    @classmethod
    def opened(cls, root: str) -> Self:
        """Return the folder that `data.root` names; `~` is the user's home.

        Raise DataError if there is no such folder.
        """
        if problem := data_root_problem(root):
            raise DataError(problem)
        return cls(expanded(root, "data.root"))

    def files(self) -> list[Blob]:
        """See Folder. Links to folders are not followed.

        Broken links are files: otherwise nobody would notice that their samples are missing.
        """

        def fail(error: OSError) -> None:
            raise DataError(f"{error.filename}: {error.strerror}")

        found = list[Blob]()
        for parent, folders, files in os.walk(self.path, onerror=fail if self.exists() else None):
            folders[:] = [name for name in folders if not is_hidden(name)]
            below = Path(parent).relative_to(self.path)
            for name in files:
                path = Path(parent, name)
                if not is_hidden(name) and (path.is_file() or not path.exists()):
                    found.append(LocalFile(self, (below / name).as_posix()))
        return found

    def folders(self) -> Sequence[str]:
        """See Folder."""
        return [path.name for path in visible_entries(Path(self.path)) if path.is_dir()] if self.exists() else []

    def exists(self) -> bool:
        """Return whether the path is a folder, which may be empty."""
        return Path(self.path).is_dir()

    def absence(self) -> str:
        """Return what is wrong with the path, and which folders are next to it."""
        path = Path(self.path)
        entries = visible_entries(path.parent) if path.parent.is_dir() else []
        names = listed([entry.name for entry in entries if entry.is_dir()], 8) or "none"
        what = "is a file, expected a folder" if path.exists() else "no such folder"
        remedy = ""
        if any(entry.suffix == ".tar" for entry in entries):
            remedy = f"; python -m tools.convert_data index-shards {path.parent} makes a data set of the tar files"
        elif any(entry.suffix.lower() in IMAGE_SUFFIXES for entry in entries):
            remedy = "; python -m tools.convert_data from-photos makes pairs of photographs"
        return f"{what}; folders next to it: {names}{remedy}"


class LocalFile(Blob):
    """A file on a disk of this machine."""

    @classmethod
    def of(cls, path: Path) -> Blob:
        """Return the file at a path."""
        return cls(LocalFolder(path.parent), path.name)

    def __str__(self) -> str:
        return str(self.path)

    @cached_property
    def path(self) -> Path:
        """The path of the file. It is cached because a sample is read many times."""
        return Path(self.folder.path, self.name)

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """See Blob."""
        return self.path.open(mode)

    def size(self) -> int:
        """See Blob."""
        return self.path.stat().st_size

    def state(self) -> str:
        """Return the path without links, the size, the time and the inode."""
        path, state = self.path, self.path.stat()
        return f"{path.resolve()}:{state.st_size}:{state.st_mtime_ns}:{state.st_ino}"


def local_folder(folder: Folder | Path) -> Folder:
    """Return `folder` as a Folder."""
    return LocalFolder(folder) if isinstance(folder, Path) else folder


def is_hidden(name: str) -> bool:
    """Return whether a file or folder is no data: its name begins with a dot, or a system or a NAS has made it.

    Otherwise thumbnails and deleted images would count as images.
    """
    return HIDDEN.search(f"/{name}/") is not None


def visible_entries(folder: Path) -> list[Path]:
    """Return the files and folders in a folder that are not hidden, sorted."""
    return sorted(path for path in folder.iterdir() if not is_hidden(path.name))
