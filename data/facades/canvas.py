"""Classes, surfaces and label maps of a synthetic house front, and the canvas that draws them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

UNITS_PER_SIDE = 128
"""Lengths are given in units of 1/128 of the shorter image side, so that fronts are similar at every size."""

COURSE = 6.0
"""Height in units of one course of bricks or slates."""


class FacadeClass(IntEnum):
    """The class ids of a label map."""

    SKY = 0
    WALL = 1
    ROOF = 2
    WINDOW = 3
    DOOR = 4
    SHUTTER = 5
    BALCONY = 6
    CORNICE = 7
    SHOP = 8
    CHIMNEY = 9
    PLANT = 10
    PAVEMENT = 11


_UNCOUNTABLE = frozenset(
    {FacadeClass.SKY, FacadeClass.WALL, FacadeClass.ROOF, FacadeClass.CORNICE, FacadeClass.PAVEMENT}
)


@dataclass(frozen=True)
class Element:
    """One surface: its class, its instance id and the pixel box [top, bottom) x [left, right) that holds it.

    The element is visible where the instance map has its id: surfaces drawn later hide the rest of the box.
    """

    kind: FacadeClass
    instance: int
    top: int
    left: int
    bottom: int
    right: int

    @property
    def area(self) -> tuple[slice, slice]:
        """Index of the box in an (H, W, ...) array."""
        return slice(self.top, self.bottom), slice(self.left, self.right)

    @property
    def height(self) -> int:
        """Height of the box in pixels."""
        return self.bottom - self.top

    @property
    def width(self) -> int:
        """Width of the box in pixels."""
        return self.right - self.left


@dataclass(frozen=True)
class FacadeLayout:
    """The geometry of a house front, without colours.

    labels: (H, W) uint8 class ids, see FacadeClass.
    instances: (H, W) int32. Sky, wall, roof, cornice and pavement have their class id; each window, door and other
        countable surface has a separate id, from len(FacadeClass) upwards.
    unit: pixels per unit.
    wall: the main wall, whose box spans all storeys.
    elements: all surfaces, including the wall, in the order in which they were drawn.
    """

    labels: NDArray[np.uint8]
    instances: NDArray[np.int32]
    unit: float
    wall: Element
    elements: tuple[Element, ...]


class Canvas:
    """Draws label and instance maps; all coordinates are in units.

    labels: (H, W) uint8, all sky at first.
    instances: (H, W) int32.
    unit: pixels per unit.
    elements: the surfaces drawn so far, except shapes that cover no pixel.
    """

    def __init__(self, height: int, width: int) -> None:
        self.unit = min(height, width) / UNITS_PER_SIDE
        self.labels: NDArray[np.uint8] = np.full((height, width), FacadeClass.SKY, np.uint8)
        self.instances: NDArray[np.int32] = np.full((height, width), FacadeClass.SKY, np.int32)
        self.elements: list[Element] = []
        self._next_instance = len(FacadeClass)

    @property
    def height(self) -> float:
        """Height of the canvas in units."""
        return self.labels.shape[0] / self.unit

    @property
    def width(self) -> float:
        """Width of the canvas in units."""
        return self.labels.shape[1] / self.unit

    def box(self, kind: FacadeClass, top: float, left: float, bottom: float, right: float) -> Element:
        """Draw a filled box, clipped to the canvas."""
        element = self._place(kind, top, left, bottom, right)
        self._fill(element, np.ones((element.height, element.width), np.bool_))
        return element

    def trapezoid(
        self,
        kind: FacadeClass,
        top: float,
        bottom: float,
        *,
        upper: tuple[float, float],
        lower: tuple[float, float],
    ) -> None:
        """Draw a shape whose (left, right) ends move linearly from `upper` at `top` to `lower` at `bottom`."""
        element = self._place(kind, top, min(upper[0], lower[0]), bottom, max(upper[1], lower[1]))
        rows = (np.arange(element.top, element.bottom) + 0.5) / self.unit
        columns = (np.arange(element.left, element.right) + 0.5) / self.unit
        share = (rows[:, None] - top) / (bottom - top)
        starts, ends = (upper[side] + share * (lower[side] - upper[side]) for side in (0, 1))
        self._fill(element, (columns >= starts) & (columns < ends))

    def ellipses(self, kind: FacadeClass, centres: Sequence[tuple[float, float]], radii: tuple[float, float]) -> None:
        """Draw one surface of equal ellipses, with (vertical, horizontal) radii, at (row, column) centres."""
        rows, columns = ([centre[axis] for centre in centres] for axis in (0, 1))
        element = self._place(
            kind, min(rows) - radii[0], min(columns) - radii[1], max(rows) + radii[0], max(columns) + radii[1]
        )
        y = (np.arange(element.top, element.bottom) + 0.5)[:, None] / self.unit
        x = (np.arange(element.left, element.right) + 0.5) / self.unit
        mask = np.zeros((element.height, element.width), np.bool_)
        for row, column in centres:
            mask |= ((y - row) / radii[0]) ** 2 + ((x - column) / radii[1]) ** 2 <= 1
        self._fill(element, mask)

    def _fill(self, element: Element, mask: NDArray[np.bool_]) -> None:
        if mask.any():
            self.labels[element.area][mask] = element.kind
            self.instances[element.area][mask] = element.instance
            self.elements.append(element)

    def _place(self, kind: FacadeClass, top: float, left: float, bottom: float, right: float) -> Element:
        height, width = self.labels.shape
        first_row, end_row = (min(max(round(row * self.unit), 0), height) for row in (top, bottom))
        first_column, end_column = (min(max(round(column * self.unit), 0), width) for column in (left, right))
        instance = int(kind)
        if kind not in _UNCOUNTABLE:
            instance, self._next_instance = self._next_instance, self._next_instance + 1
        return Element(kind, instance, first_row, first_column, end_row, end_column)
