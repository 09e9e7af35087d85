"""A rectangle of pixels on which materials are painted. Lengths are in units from its upper left corner."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]

Colour = tuple[int, int, int]
"""RGB from 0 to 255."""


class Surface:
    """Paints colours in place, each with a cover: the opacity of the colour at every pixel, 0..1.

    Covers are (H, 1), (1, W) or (H, W) float32. A strip that ends inside a pixel covers a part of it, so that
    a joint thinner than a pixel stays visible.

    pixels: (H, W, 3) float32 RGB, 0..255.
    unit: pixels per unit of length.
    """

    def __init__(self, pixels: FloatArray, unit: float) -> None:
        self.pixels = pixels
        self.unit = unit

    @property
    def height(self) -> float:
        """Height in units."""
        return len(self.pixels) / self.unit

    @property
    def width(self) -> float:
        """Width in units."""
        return self.pixels.shape[1] / self.unit

    def upper(self, share: float) -> "Surface":
        """Return the upper part of this surface, which shares its pixels."""
        return Surface(self.pixels[: round(share * len(self.pixels))], self.unit)

    def fill(self, colour: Colour) -> None:
        """Paint the surface in one colour."""
        self.pixels[:] = colour

    def lay(self, colour: Colour, cover: FloatArray) -> None:
        """Blend a colour into the surface where the cover is not 0."""
        opacity = cover[..., None]
        self.pixels *= 1 - opacity
        self.pixels += opacity * np.asarray(colour, np.float32)

    def shade(self, factor: FloatArray) -> None:
        """Multiply the pixels by a factor in the shape of a cover."""
        self.pixels *= factor[..., None]

    def rows(self, start: float, end: float) -> FloatArray:
        """Return the (H, 1) cover of a strip across the surface."""
        return _strip(len(self.pixels), start * self.unit, end * self.unit)[:, None]

    def columns(self, start: float, end: float) -> FloatArray:
        """Return the (1, W) cover of a strip down the surface."""
        return _strip(self.pixels.shape[1], start * self.unit, end * self.unit)[None]

    def frame(self, thickness: float) -> FloatArray:
        """Return the (H, W) cover of a frame along the edges."""
        inner_rows = self.rows(thickness, self.height - thickness)
        return 1 - inner_rows * self.columns(thickness, self.width - thickness)

    def row_bars(self, period: float, thickness: float, offset: float) -> FloatArray:
        """Return the (H, 1) cover of bars across the surface at every offset + k * period."""
        return _bars(len(self.pixels), self.unit, period, thickness, offset)[:, None]

    def column_bars(self, period: float, thickness: float, offset: float) -> FloatArray:
        """Return the (1, W) cover of bars down the surface at every offset + k * period."""
        return _bars(self.pixels.shape[1], self.unit, period, thickness, offset)[None]

    def ramp_down(self, first: float, last: float) -> FloatArray:
        """Return (H, 1) values that change linearly from `first` at the top to `last` at the bottom."""
        return np.linspace(first, last, len(self.pixels), dtype=np.float32)[:, None]

    def ramp_across(self, first: float, last: float) -> FloatArray:
        """Return (1, W) values that change linearly from `first` at the left to `last` at the right."""
        return np.linspace(first, last, self.pixels.shape[1], dtype=np.float32)[None]


def split_into_parts(length: int, part: float) -> tuple[NDArray[np.intp], FloatArray]:
    """Return for each of `length` pixels the index of its part in a row of equal parts, and its position there, 0..1.

    part: length of a part in pixels.
    """
    position = (np.arange(length, dtype=np.float32) + 0.5) / np.float32(part)
    index = np.floor(position)
    return index.astype(np.intp), position - index


def _strip(length: int, start: float, end: float) -> FloatArray:
    edges = np.arange(length, dtype=np.float32)
    cover = np.minimum(edges + 1, np.float32(end)) - np.maximum(edges, np.float32(start))
    return np.clip(cover, np.float32(0), np.float32(1))


def _bars(length: int, unit: float, period: float, thickness: float, offset: float) -> FloatArray:
    edges = np.arange(length + 1, dtype=np.float32) / np.float32(unit) - np.float32(offset)
    bar = np.floor(edges / np.float32(period))
    covered = bar * np.float32(thickness) + np.minimum(edges - bar * np.float32(period), np.float32(thickness))
    return np.diff(covered) * np.float32(unit)
