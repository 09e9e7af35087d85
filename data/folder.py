"""Folders of data sets and their files, on a local disk or in tar files."""

import errno
import io
import json
import os
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol, Self

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
    """A file that can be read: a Blob or a Path. Messages contain `str(file)`."""

    @property
    def suffix(self) -> str:
        """The end of the file's name, from the last dot on."""
        ...

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Open the file for reading."""
        ...


@dataclass(frozen=True)
class Blob(ABC):
    """A file of a data set. Messages contain `str(blob)`.

    folder: Folder whose method `files` returned this file.
    name: Path below this folder, with "/" between parts.
    """

    folder: "Folder"
    name: str

    def __str__(self) -> str:
        return str(self.folder / self.name)

    @property
    def suffix(self) -> str:
        """The end of the file's name, from the last dot on."""
        return PurePath(self.name).suffix

    @abstractmethod
    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """Open the file for reading. The result can seek. If the file is on a disk, the result also has `fileno`.

        Raise OSError if the file is missing or cannot be read.
        """

    @abstractmethod
    def size(self) -> int:
        """Return the size in bytes; raise OSError like `open`."""

    @abstractmethod
    def state(self) -> str:
        """Return a text that changes when the file changes. The file is not read. Raise OSError like `open`."""


@dataclass(frozen=True)
class Folder(ABC):
    """A folder of a data set. Messages contain `str(folder)`. Equal folders hold the same files."""

    path: PurePath

    def __truediv__(self, path: str) -> Self:
        return replace(self, path=self.path / path)

    def __str__(self) -> str:
        return str(self.path)

    @abstractmethod
    def files(self) -> Sequence[Blob]:
        """Return the files at any depth that are not hidden. A missing folder has no files.

        Raise DataError if a folder cannot be listed.
        """

    @abstractmethod
    def folders(self) -> Sequence[str]:
        """Return the sorted names of direct subfolders that are not hidden; raise DataError like `files`."""

    def exists(self) -> bool:
        """Return whether the folder exists."""
        return bool(self.files())

    def absence(self) -> str:
        """Return the text of an error message about this missing folder."""
        return "no such folder"


class LocalFolder(Folder):
    """A folder on a local disk."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(Path(path))

    def files(self) -> list[Blob]:
        """See Folder. Links to folders are not followed.

        Broken links count as files, because the user must notice that these samples are missing.
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
        """Return whether the path is a folder. The folder can be empty."""
        return Path(self.path).is_dir()

    def absence(self) -> str:
        """Return the problem with the path, the folders next to it, and a remedy."""
        path = Path(self.path)
        entries = visible_entries(path.parent) if path.parent.is_dir() else []
        names = listed([entry.name for entry in entries if entry.is_dir()], 8) or "none"
        what = "is a file, expected a folder" if path.exists() else "no such folder"
        remedy = ""
        if any(entry.suffix == ".tar" for entry in entries):
            remedy = f"; python -m tools.convert_data index-shards {path.parent} turns the tar files into a data set"
        elif any(entry.suffix.lower() in IMAGE_SUFFIXES for entry in entries):
            remedy = "; python -m tools.convert_data from-photos makes pairs of photographs"
        return f"{what}; folders next to it: {names}{remedy}"


class LocalFile(Blob):
    """A file on a local disk."""

    @classmethod
    def of(cls, path: Path) -> Blob:
        """Return the file at a path."""
        return cls(LocalFolder(path.parent), path.name)

    def __str__(self) -> str:
        return str(self.path)

    @cached_property
    def path(self) -> Path:
        """The path of the file, cached because each sample is read many times."""
        return Path(self.folder.path, self.name)

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """See Blob."""
        return self.path.open(mode)

    def size(self) -> int:
        """See Blob."""
        return self.path.stat().st_size

    def state(self) -> str:
        """Return the path with links resolved, the size, the time of the last change and the inode."""
        path, state = self.path, self.path.stat()
        return f"{path.resolve()}:{state.st_size}:{state.st_mtime_ns}:{state.st_ino}"


def local_folder(folder: Folder | Path) -> Folder:
    """Return `folder` as a Folder. A Path becomes a LocalFolder."""
    return LocalFolder(folder) if isinstance(folder, Path) else folder


def is_hidden(name: str) -> bool:
    """Return whether a name begins with a dot, or belongs to a folder that operating systems or NAS devices add.

    Such folders hold thumbnails and deleted images, which must not count as images.
    """
    return HIDDEN.search(f"/{name}/") is not None


def visible_entries(folder: Path) -> list[Path]:
    """Return the files and folders in a folder that are not hidden, sorted."""
    return sorted(path for path in folder.iterdir() if not is_hidden(path.name))


INDEX = "tar_index.jsonl"
_VERSION = "tar_index 1"


class Member(NamedTuple):
    """A line of the index: the position of a file in a tar file.

    tar: Path of the tar file below the root.
    name: Path of the file below the root of the packed data set.
    offset, n_bytes: Position and size of its content in the tar file, in bytes.
    crc: CRC-32 of the content.
    """

    tar: str
    name: str
    offset: int
    n_bytes: int
    crc: int


def index_lines(members: Collection[Member]) -> Iterator[str]:
    """Yield the lines of an index. The first line holds the version and the number of members."""
    for row in ([_VERSION, len(members)], *members):
        yield f"{json.dumps(row)}\n"


@dataclass(frozen=True)
class TarFolder(Folder):
    """A folder whose files are in tar files. An index lists the position of each file.

    path: Path below the root of the packed data set.
    root: Folder of the index and the tar files.
    members: All files in the tar files, by name.
    """

    root: Path
    members: Mapping[str, Member] = field(repr=False, compare=False)

    def __str__(self) -> str:
        return str(self.root / self.path)

    def files(self) -> list[Blob]:
        """See Folder."""
        return [TarBlob(self, name, member) for name, member in self._below()]

    def folders(self) -> Sequence[str]:
        """See Folder."""
        return sorted({name.partition("/")[0] for name, _ in self._below() if "/" in name})

    def absence(self) -> str:
        """See Folder."""
        others = TarFolder(self.path.parent, self.root, self.members).folders()
        return f"no such folder; folders next to it: {listed(others, 8) or 'none'}"

    def _below(self) -> Iterator[tuple[str, Member]]:
        """For each file in this folder, yield its path below the folder and its index entry."""
        prefix = "/".join([*self.path.parts, ""])
        for name, member in self.members.items():
            if name.startswith(prefix):
                yield name.removeprefix(prefix), member


@dataclass(frozen=True)
class TarBlob(Blob):
    """A file in a tar file. Opening it reads its whole content, but no other part of the tar file."""

    folder: TarFolder
    member: Member

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """See Blob. Raise OSError also if the tar file has changed since it was indexed."""
        try:
            with (self.folder.root / self.member.tar).open("rb") as file:
                file.seek(self.member.offset)
                content = file.read(self.member.n_bytes)
        except OSError as error:  # callers add the image's name; this text names the tar file
            raise OSError(errno.EIO, f"{self.member.tar}: {error.strerror}") from error
        if len(content) < self.member.n_bytes or zlib.crc32(content) != self.member.crc:
            raise OSError(errno.EIO, f"{self.member.tar} differs from {INDEX}")
        return io.BytesIO(content)

    def size(self) -> int:
        """See Blob."""
        return self.member.n_bytes

    def state(self) -> str:
        """Return the position of the content in the tar file and its checksum."""
        return f"{self.folder.root.resolve()} {self.member}"


def _read_index(root: Path) -> dict[str, Member]:
    """Read the index in a folder, and return its members by name; raise DataError if the index is damaged."""
    try:
        with (root / INDEX).open(encoding="utf-8") as lines:
            return _checked(root, map(json.loads, lines))
    except OSError as error:
        raise DataError(f"{error.filename}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{root / INDEX}: is damaged. {_again(root)}") from error


def _checked(root: Path, rows: Iterator[Any]) -> dict[str, Member]:
    """Check the rows of an index, and return its members by name.

    Raises:
        DataError: A tar file is shorter than the index says.
        OSError: A tar file is missing.
        ValueError: The rows do not have the format of `index_lines`, or members repeat or overlap.
    """
    head = next(rows, None)
    members, sizes, end = dict[str, Member](), dict[str, int](), 0
    for row in rows:
        member = _member(row)
        if member.tar not in sizes:
            sizes[member.tar], end = (root / member.tar).stat().st_size, 0
        elif member.tar != next(reversed(sizes)) or member.offset < end:
            raise ValueError
        end = member.offset + member.n_bytes
        if end > sizes[member.tar]:
            raise DataError(f"{root / member.tar}: is shorter than when it was indexed. {_again(root)}")
        members[member.name] = member
    if not members or head != [_VERSION, len(members)]:
        raise ValueError
    return members


def _member(row: Any) -> Member:
    """Convert a row of an index to a member; raise ValueError if its format is wrong."""
    match row:
        case [str(tar), str(name), int(), int(), int()] if is_inside(tar) and is_inside(name):
            if all(0 <= number < 2**63 for number in row[2:]):
                return Member(*row)
    raise ValueError


def is_inside(name: str) -> bool:
    """Return whether a relative path stays inside its folder on every operating system.

    A name can contain surrogate escapes (bytes that are not UTF-8). Other surrogates raise UnicodeEncodeError.
    """
    name.encode("utf-8", "surrogateescape")
    return {"", ".", ".."}.isdisjoint(name.split("/")) and not any(mark in name for mark in "\\:\0")


def _again(root: Path) -> str:
    return f"Copy it again, or run python -m tools.convert_data index-shards {root}"


def data_set_folder(root: str) -> Folder:
    """Return the folder `root`: a TarFolder if it contains an index of tar files, otherwise a LocalFolder.

    `~` is expanded. Raise DataError if the folder is missing, or its index is damaged or does not fit the tar files.
    """
    if problem := data_root_problem(root):
        raise DataError(problem)
    folder = expanded(root, "data.root")
    has_index = (folder / INDEX).is_file()
    return TarFolder(PurePosixPath(), folder, _read_index(folder)) if has_index else LocalFolder(folder)
