"""The folder of a data set, which may be packed in tar files. An index says where each file is."""

import errno
import io
import json
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal, NamedTuple

from data.batch import DataError
from data.folder import Blob, Folder, LocalFolder
from utils.files import expanded
from utils.text import listed

INDEX = "tar_index.jsonl"
_VERSION = "tar_index 1"


class Member(NamedTuple):
    """A file in a tar file, as a line of the index lists it.

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
    """Yield the lines of an index; the first one holds the number of the others."""
    for row in ([_VERSION, len(members)], *members):
        yield f"{json.dumps(row)}\n"


@dataclass(frozen=True)
class TarFolder(Folder):
    """A folder in tar files.

    path: Path below the root of the packed data set.
    root: Folder of the index and the tar files.
    members: All packed files by their names.
    """

    root: Path
    members: Mapping[str, Member] = field(repr=False, compare=False)

    @classmethod
    def opened(cls, root: str) -> Folder | None:
        """Return the data set in a folder that has an index, or None for other folders.

        Raise DataError if the index is damaged, or a tar file is missing or shorter than the index says.
        """
        folder = expanded(root, "data.root")
        return cls(PurePosixPath(), folder, _read_index(folder)) if (folder / INDEX).is_file() else None

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
        """Yield the members below the folder, with their paths below it."""
        prefix = "/".join([*self.path.parts, ""])
        for name, member in self.members.items():
            if name.startswith(prefix):
                yield name.removeprefix(prefix), member


@dataclass(frozen=True)
class TarBlob(Blob):
    """A file in a tar file, which is read as a whole."""

    folder: TarFolder
    member: Member

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """See Blob. Raise OSError also if the tar file has changed since it was indexed."""
        try:
            with (self.folder.root / self.member.tar).open("rb") as file:
                file.seek(self.member.offset)
                content = file.read(self.member.n_bytes)
        except OSError as error:  # names the tar file, not the image
            raise OSError(errno.EIO, f"{self.member.tar}: {error.strerror}") from error
        if len(content) < self.member.n_bytes or zlib.crc32(content) != self.member.crc:
            raise OSError(errno.EIO, f"{self.member.tar} differs from {INDEX}")
        return io.BytesIO(content)

    def size(self) -> int:
        """See Blob."""
        return self.member.n_bytes

    def state(self) -> str:
        """Return the place and the checksum of the content."""
        return f"{self.folder.root.resolve()} {self.member}"


def _read_index(root: Path) -> dict[str, Member]:
    """Return the members that an index lists by their names; raise DataError if it is damaged."""
    try:
        with (root / INDEX).open(encoding="utf-8") as lines:
            return _checked(root, map(json.loads, lines))
    except OSError as error:
        raise DataError(f"{error.filename}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{root / INDEX}: is damaged. {_again(root)}") from error


def _checked(root: Path, rows: Iterator[Any]) -> dict[str, Member]:
    """Return the members in the rows of an index by their names.

    Raises:
        DataError: A tar file is shorter than the index says.
        OSError: A tar file is missing.
        ValueError: The rows are not as `index_lines` writes them, or members repeat or overlap.
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
    """Return the member in a row of an index; raise ValueError if there is none."""
    match row:
        case [str(tar), str(name), int(), int(), int()] if is_inside(tar) and is_inside(name):
            if all(0 <= number < 2**63 for number in row[2:]):
                return Member(*row)
    raise ValueError


def is_inside(name: str) -> bool:
    """Return whether a name is a path below a folder on any system.

    Bytes that are not UTF-8 are surrogate escapes in it. Other surrogates raise UnicodeEncodeError, a ValueError.
    """
    name.encode("utf-8", "surrogateescape")
    return {"", ".", ".."}.isdisjoint(name.split("/")) and not any(mark in name for mark in "\\:\0")


def _again(root: Path) -> str:
    return f"Copy it again, or run python -m tools.convert_data index-shards {root}"


def data_set_folder(root: str) -> Folder:
    """Return the folder of the data set that `data.root` names: of tar files if it has an index of them.

    Raise DataError if there is no such data set.
    """
    return TarFolder.opened(root) or LocalFolder.opened(root)
