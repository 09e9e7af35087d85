"""Ranges of bytes of files, wherever they are."""

from dataclasses import dataclass
from pathlib import Path

from data.batch import LoadingError


class StoreError(LoadingError):
    """A store does not give the bytes that it should: the run ends, and no sample is skipped for it."""


@dataclass(frozen=True)
class RemoteFile:
    """A file that is read by ranges of bytes; `str` is its place, for messages.

    url: its path.
    """

    url: str

    def __str__(self) -> str:
        return self.url

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to `end`, exactly that many.

        Raises:
            StoreError: they cannot be read, or are fewer.
        """
        try:
            with Path(self.url).open("rb") as file:
                file.seek(start)
                content = file.read(end - start)
        except OSError as error:
            raise StoreError(f"{self}: {error.strerror}. Check that it can be read.") from error
        if len(content) != end - start:
            raise StoreError(f"{self}: has {len(content)} of {end - start} bytes from {start} on. Copy it again.")
        return content

    def read_all(self, limit: int) -> bytes:
        """Return all bytes; raises as `read`, and where they are more than `limit`."""
        n_bytes = self.size()
        if n_bytes > limit:
            raise StoreError(f"{self}: has {n_bytes} bytes, expected at most {limit}. Check that it is the right file.")
        return self.read(0, n_bytes)

    def size(self) -> int:
        """Return the number of its bytes; raises as `read`."""
        try:
            return Path(self.url).stat().st_size
        except OSError as error:
            raise StoreError(f"{self}: {error.strerror}. Check that it can be read.") from error
