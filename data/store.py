"""The contract of stores: where the bytes of data sets come from."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
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

    @abstractmethod
    def folders(self, folder: "Folder") -> Sequence[str]:
        """Return the names of the folders in a folder that are not hidden, sorted; raises as `list`."""


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

    folder: Folder that lists it. name: Its path below that folder, with "/" between parts.
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
