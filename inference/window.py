"""A rectangle of pixels."""

from dataclasses import dataclass
from typing import Self

from torch import Tensor


@dataclass(frozen=True)
class Window:
    """Rows top to bottom and columns left to right of an image, the ends left out; in pixels."""

    top: int
    bottom: int
    left: int
    right: int

    def grown(self, by: int, within: Self) -> Self:
        """The window with `by` more pixels on each side, as far as there are any."""
        return type(self)(
            max(self.top - by, within.top),
            min(self.bottom + by, within.bottom),
            max(self.left - by, within.left),
            min(self.right + by, within.right),
        )

    def at(self, stride: int) -> Self:
        """The window in an image whose sides are `stride` times shorter."""
        return type(self)(self.top // stride, self.bottom // stride, self.left // stride, self.right // stride)

    def seen_from(self, other: Self) -> Self:
        """The window in coordinates that begin where the other does."""
        return type(self)(
            self.top - other.top, self.bottom - other.top, self.left - other.left, self.right - other.left
        )

    def cut(self, image: Tensor) -> Tensor:
        """The part of a (..., H, W) image that lies in the window."""
        return image[..., self.top : self.bottom, self.left : self.right]
