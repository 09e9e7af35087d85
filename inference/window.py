"""Rectangles of pixels."""

from dataclasses import dataclass
from typing import Self

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
