"""The contract of stores: where the bytes of data sets come from."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import BinaryIO, Literal, Protocol, Self


class File(Protocol):
    """A file that can be read: a blob of a store, or a Path of this machine. `str` is its place, for messages."""

    @property
    def suffix(self) -> str:
        """The end of its name from the last dot on."""
        ...

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Open it for reading."""
        ...


class Store(ABC):
    """Lists the files of data sets. An entry of `data.STORES`; equal stores hold the same files."""

    @classmethod
    @abstractmethod
    def opened(cls, root: str) -> "Folder | None":
        """Return the folder of a data set, given the text of `data.root`; None where another store is to read it.

        Raises:
            DataError: there is no such data set.
        """

    @abstractmethod
    def place(self, path: PurePath) -> str:
        """Return the place of a file or folder, for messages."""

    @abstractmethod
    def list(self, folder: "Folder") -> "list[Blob]":
        """Return the files below a folder that are not hidden; none if there is no such folder.

        Raises:
            DataError: a folder cannot be listed.
        """

    def has(self, folder: "Folder") -> bool:
        """Return whether there is a folder."""
        return bool(self.list(folder))

    def absence(self, folder: "Folder") -> str:
        """Return the end of the message that there is no such folder, with remedies."""
        return "no such folder"

    def problems(self, folder: "Folder") -> Iterator[str]:
        """Yield a line for each damaged file of the store itself, such as an archive, which checks read whole."""
        yield from ()

    def fetched(self, blobs: "Sequence[Blob]") -> "Sequence[Blob]":
        """Return the blobs of one sample, of which each is opened once. Called once per sample.

        A store that reads over a network returns blobs with their content, and joins adjacent ranges into one request.
        """
        return blobs


@dataclass(frozen=True)
class Folder:
    """A folder of a store; `str` is its place, for messages."""

    store: Store
    path: PurePath

    def __truediv__(self, path: str) -> Self:
        return type(self)(self.store, self.path / path)

    def __str__(self) -> str:
        return self.store.place(self.path)


@dataclass(frozen=True)
class Blob(ABC):
    """A file of a store; `str` is its place, for messages.

    folder: in which it was listed. name: its path below that, with "/" between parts.
    """

    folder: Folder
    name: str

    def __str__(self) -> str:
        return str(self.folder / self.name)

    @property
    def suffix(self) -> str:
        """The end of its name from the last dot on."""
        return PurePath(self.name).suffix

    @abstractmethod
    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """Open it for reading, at its start. The file can seek; one of this machine has a descriptor (`fileno`).

        Raises:
            OSError: it is missing or cannot be read.
        """

    @abstractmethod
    def size(self) -> int:
        """Return the number of its bytes; raises as `open`."""

    @abstractmethod
    def state(self) -> str:
        """Return a text that changes when it is written to or replaced, without reading it; raises as `open`."""

    def content_key(self) -> str:
        """Return a text that changes with its content and not with its place; raises as `open`."""
        return self.digest()

    def digest(self) -> str:
        """Return the SHA-256 of its content, in hexadecimal digits; raises as `open`."""
        with self.open() as file:
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # BinaryIO lacks readinto
