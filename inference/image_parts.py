"""One image with its maps, read part by part where it is too large for the memory."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

from torch import Tensor

from data.batch import Batch
from data.files.stored_images import StoredRows
from inference.padding import Padding
from inference.window import Window


@dataclass(frozen=True)
class ImageParts:
    """An image of sides that a network accepts.

    read: returns the maps inside a window, as a batch of one.
    """

    name: str
    height: int
    width: int
    read: Callable[[Window], Batch]

    @classmethod
    def of(cls, batch: Batch) -> Self:
        """Return an image that is in memory, as a batch of one."""
        (name,) = batch.names
        height, width = batch.source.shape[-2:]
        return cls(name, height, width, lambda window: batch.mapped(window.cut))

    @classmethod
    def of_rows(cls, name: str, rows: StoredRows, padding: Padding) -> Self:
        """Return a source in an open file, padded as it is read; the rows of the last part stay in memory."""
        read_rows: Callable[[int, int], Tensor] = lru_cache(maxsize=1)(rows.read)

        def read(window: Window) -> Batch:
            places, columns = padding.rows[window.top : window.bottom], padding.columns[window.left : window.right]
            first = int(places.min())
            source = read_rows(first, int(places.max()) + 1)[:, (places - first)[:, None], columns]
            return Batch((name,), source[None], None, None)

        return cls(name, len(padding.rows), len(padding.columns), read)

    @property
    def window(self) -> Window:
        """The window of all pixels."""
        return Window(0, self.height, 0, self.width)

    def mirrored(self) -> Self:
        """Return the mirror image."""

        def read(window: Window) -> Batch:
            other = replace(window, left=self.width - window.right, right=self.width - window.left)
            return self.read(other).mapped(lambda images: images.flip(-1))

        return replace(self, read=read)
