"""Rectangles of pixels, and tensors in temporary files that are written and read by them."""

import errno
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Window:
    """Rows top to bottom - 1 and columns left to right - 1 of an image, in pixels."""

    top: int
    bottom: int
    left: int
    right: int

    def grown(self, by: int, within: Self) -> Self:
        """Return the window with up to `by` more pixels on each side, as far as `within` reaches."""
        return type(self)(
            max(self.top - by, within.top),
            min(self.bottom + by, within.bottom),
            max(self.left - by, within.left),
            min(self.right + by, within.right),
        )

    def at(self, stride: int) -> Self:
        """Return the window in an image whose sides are `stride` times shorter."""
        return type(self)(self.top // stride, self.bottom // stride, self.left // stride, self.right // stride)

    def times(self, scale: float) -> Self:
        """Return the window in an image whose sides are `scale` times as long; its sides are whole numbers there."""
        return type(self)(*(int(side * scale) for side in (self.top, self.bottom, self.left, self.right)))

    def seen_from(self, other: Self) -> Self:
        """Return the window in coordinates that start at the top left of `other`."""
        return type(self)(
            self.top - other.top, self.bottom - other.top, self.left - other.left, self.right - other.left
        )

    def cut(self, image: Tensor) -> Tensor:
        """Return the part of a (..., H, W) image inside the window."""
        return image[..., self.top : self.bottom, self.left : self.right]


class TensorFile:
    """A (1, C, H, W) tensor in an unnamed temporary file of `folder`, which vanishes with the process at the latest.

    The file holds row after row, channels last. The first part that is written sets channels, dtype and device.
    """

    def __init__(self, folder: Path, width: int) -> None:
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by its owner
        self._width = width
        self._like = torch.zeros(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def write(self, window: Window, part: Tensor) -> None:
        """Write the part (1, C, h, w) of a window."""
        if not self._like.numel():
            self._like = part.new_zeros(part.shape[1])
        rows = part[0].permute(1, 2, 0).contiguous().cpu().view(torch.uint8).numpy()
        try:
            for row, position in zip(rows, self._positions(window), strict=True):
                self._write_at(position, row.data)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                error.strerror = "no space left for the temporary files of --tile"
                error.filename = str(self._folder)
            raise

    def read(self, window: Window) -> Tensor:
        """Read the part (1, C, h, w) of a window."""
        height, width = window.bottom - window.top, window.right - window.left
        part = torch.empty(height, width, len(self._like), dtype=self._like.dtype)
        rows = part.view(torch.uint8).numpy()
        for row, position in zip(rows, self._positions(window), strict=True):
            self._read_at(position, row.data)
        return part.to(self._like.device).permute(2, 0, 1)[None].contiguous()

    def _write_at(self, position: int, left: memoryview) -> None:
        """Write all bytes: a disk that is nearly full takes some of them, and refuses the next call."""
        self._file.seek(position)
        left = left.cast("B")
        while left:
            left = left[self._file.write(left) :]

    def _read_at(self, position: int, left: memoryview) -> None:
        """Read bytes until `left` is full; raise OSError where the file ends before."""
        self._file.seek(position)
        left = left.cast("B")
        while left:
            n_bytes = self._file.readinto(left)
            if not n_bytes:
                raise OSError(
                    errno.EIO, "a temporary file of --tile is shorter than what was written", str(self._folder)
                )
            left = left[n_bytes:]

    def _positions(self, window: Window) -> Iterator[int]:
        """Yield the position of each row of a window in the file, in bytes."""
        n_bytes = len(self._like) * self._like.element_size()
        for row in range(window.top, window.bottom):
            yield (row * self._width + window.left) * n_bytes
