"""The geometry of synthetic house fronts: which surface each pixel shows. Lengths are in units."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

UNITS_PER_SIDE = 128
"""Lengths are given in units of 1/128 of the shorter image side, so that fronts are similar at every size."""

COURSE = 6.0
"""Height of one course of bricks or slates."""


CLASS_COLORS = {
    "sky": (135, 206, 250),
    "wall": (200, 85, 60),
    "roof": (90, 70, 140),
    "window": (30, 80, 200),
    "door": (0, 150, 136),
    "shutter": (150, 215, 90),
    "balcony": (70, 70, 70),
    "cornice": (250, 205, 60),
    "shop": (235, 60, 160),
    "chimney": (120, 60, 30),
    "plant": (25, 130, 50),
    "pavement": (185, 185, 185),
}
"""The classes in the order of their ids, and the RGB colours in which they are shown."""

SKY, WALL, ROOF, WINDOW, DOOR, SHUTTER, BALCONY, CORNICE, SHOP, CHIMNEY, PLANT, PAVEMENT = range(len(CLASS_COLORS))

_UNCOUNTABLE = (SKY, WALL, ROOF, CORNICE, PAVEMENT)
_BAND_HEIGHT, _SILL_HEIGHT, _EAVES_HEIGHT = 4.0, 2.0, 4.0
_SHUTTER_SHARE = 0.55  # of the width of a window
_BAY_WIDTHS = (19.0, 44.0)
# A storey is a whole number of courses high, so that courses meet windows and cornices in the same way everywhere.
_STOREY_COURSES = (4, 5, 6, 7)
_WALL_SHARES = (0.5, 0.76)  # of the height of the image
_ROOF_SHARES = {"flat": 0.2, "hip": 0.3, "mansard": 0.3, "gable": 0.2}


_Inside = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.bool_]]


class HouseFront:
    """The surfaces of a house front, each drawn over those before it.

    unit: pixels per unit. height, width: of the image, in units.
    surfaces: (H, W) int32, the number of the surface that each pixel shows.
    classes, boxes: of the surfaces, by number. A box is [top, left, bottom, right) in pixels, and need not be filled.
    """

    def __init__(self, height: int, width: int) -> None:
        self.unit = min(height, width) / UNITS_PER_SIDE
        self.height, self.width = height / self.unit, width / self.unit
        self.surfaces: NDArray[np.int32] = np.zeros((height, width), np.int32)
        self.classes: list[int] = []
        self.boxes: list[tuple[int, ...]] = []

    @property
    def labels(self) -> NDArray[np.uint8]:
        """The class of each pixel, (H, W)."""
        return np.asarray(self.classes, np.uint8)[self.surfaces]

    @property
    def instances(self) -> NDArray[np.int32]:
        """The instance of each pixel, (H, W).

        Sky, wall, roof, cornice and pavement have their class id; each window, door and other countable surface has an
        id of its own, from len(CLASS_COLORS) upwards.
        """
        is_one = np.isin(self.classes, _UNCOUNTABLE)
        ids = np.where(is_one, self.classes, np.cumsum(~is_one) + len(CLASS_COLORS) - 1)
        return ids.astype(np.int32)[self.surfaces]

    @property
    def wall(self) -> tuple[int, ...]:
        """The box of the main wall, which spans all storeys."""
        return self.boxes[self.classes.index(WALL)]

    def add(
        self, surface: int, top: float, left: float, bottom: float, right: float, inside: _Inside | None = None
    ) -> None:
        """Draw a box of a class, clipped to the image, or the part of it where `inside(y, x)` holds."""
        sides = self.surfaces.shape
        places = zip((top, left, bottom, right), sides * 2, strict=True)
        box = tuple(min(max(round(place * self.unit), 0), side) for place, side in places)
        area = slice(box[0], box[2]), slice(box[1], box[3])
        y, x = ((np.arange(part.start, part.stop) + 0.5) / self.unit for part in area)
        mask = np.ones((len(y), len(x)), np.bool_) if inside is None else inside(y[:, None], x)
        if mask.any():
            self.surfaces[area][mask] = len(self.classes)
            self.classes.append(surface)
            self.boxes.append(box)

    def add_trapezoid(self, surface: int, top: float, bottom: float, middle: float, upper: float, lower: float) -> None:
        """Draw a shape about a vertical axis, whose width changes linearly from 2 * `upper` to 2 * `lower`."""
        slope, reach = (lower - upper) / (bottom - top), max(upper, lower)
        left, right = middle - reach, middle + reach
        self.add(surface, top, left, bottom, right, lambda y, x: abs(x - middle) < upper + (y - top) * slope)

    def add_ellipses(self, surface: int, centres: list[tuple[float, float]], height: float, width: float) -> None:
        """Draw one surface of equal ellipses with these half sides, at (y, x) centres."""
        ys, xs = zip(*centres, strict=True)

        def inside(y: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.bool_]:
            return np.any([((y - b) / height) ** 2 + ((x - a) / width) ** 2 <= 1 for b, a in centres], axis=0)

        self.add(surface, min(ys) - height, min(xs) - width, max(ys) + height, max(xs) + width, inside)


class _House:
    """The proportions of a random house for an image of these sides, in units.

    Its storeys are all `courses` high and have `bays` windows beside each other. A terraced house spans the width.
    balcony_storey: 0 where there are no balconies.
    """

    def __init__(self, rng: np.random.Generator, height: float, width: float) -> None:
        self.ground = height - rng.uniform(9, 15)
        low, high = (share * height / COURSE for share in _WALL_SHARES)
        sizes = [(n, courses) for n in range(2, int(high)) for courses in _STOREY_COURSES if low <= n * courses <= high]
        self.storeys, self.courses = sizes[rng.integers(len(sizes))]
        self.top = self.ground - self.storeys * self.courses * COURSE
        self.is_terraced = bool(rng.random() < 0.4)
        margins = [0.0, 0.0] if self.is_terraced else (rng.uniform(0.06, 0.17, 2) * width).tolist()
        self.left, self.right = margins[0], width - margins[1]
        fewest = max(2, int(np.ceil((self.right - self.left) / _BAY_WIDTHS[1])))
        self.bays = int(rng.integers(fewest, max(fewest, int((self.right - self.left) / _BAY_WIDTHS[0])) + 1))
        self.bay_width, self.middle = (self.right - self.left) / self.bays, (self.left + self.right) / 2
        self.has_shutters = rng.random() < 0.4
        window_share = rng.uniform(0.36, 0.42) if self.has_shutters else rng.uniform(0.44, 0.6)
        self.window_width = min(self.bay_width * window_share, 20)
        self.window_height = (self.courses - 2 - (self.courses > 5 and rng.random() < 0.5)) * COURSE
        has_balconies = rng.random() < 0.65
        balcony_share = 1.0 if rng.random() < 0.5 else 0.5
        self.has_bands, self.has_shop = rng.random() < 0.6, rng.random() < 0.4
        self.door_bay = rng.integers(self.bays)
        self.balcony_storey = rng.integers(1, self.storeys) if has_balconies else 0
        self.has_balcony = rng.random(self.bays) < balcony_share

    def bay_centre(self, bay: int) -> float:
        return self.left + (bay + 0.5) * self.bay_width

    def storey_top(self, storey: int) -> float:
        """Return the top of a storey; 0 is the ground floor."""
        return self.ground - (storey + 1) * self.courses * COURSE


def draw_house_front(rng: np.random.Generator, height: int, width: int) -> HouseFront:
    """Draw a random house front of `height` x `width` pixels, each at least 32."""
    front = HouseFront(height, width)
    house = _House(rng, front.height, front.width)
    front.add(SKY, 0, 0, house.ground, front.width)
    front.add(PAVEMENT, house.ground, 0, front.height, front.width)
    front.add(WALL, house.top, house.left, house.ground, house.right)
    _add_roof(rng, front, house)
    front.add(CORNICE, house.top - _EAVES_HEIGHT, house.left - 2, house.top, house.right + 2)
    for storey in range(house.storeys - 1, 0, -1):
        _add_upper_storey(front, house, storey)
    _add_ground_floor(front, house)
    _add_plants(rng, front, house)
    return front


def _add_roof(rng: np.random.Generator, front: HouseFront, house: _House) -> None:
    bottom, middle, half = house.top - _EAVES_HEIGHT, house.middle, (house.right - house.left) / 2
    height = min(rng.uniform(14, 30), bottom - 5)
    shape = list(_ROOF_SHARES)[rng.choice(len(_ROOF_SHARES), p=list(_ROOF_SHARES.values()))]
    if shape == "flat" or height < 9 or (shape == "gable" and 2 * half > 7 * height):
        front.add(WALL, bottom - COURSE, house.left, bottom, house.right)
        front.add(CORNICE, bottom - COURSE - _SILL_HEIGHT, house.left - 1, bottom - COURSE, house.right + 1)
        return
    top = bottom - height
    chimney_top = max(top - 6, 1.5)
    if shape == "gable":
        chimney = house.left + rng.choice([0.2, 0.8]) * 2 * half
        front.add(CHIMNEY, chimney_top, chimney - 4, house.top, chimney + 4)
        front.add_trapezoid(ROOF, top, house.top, middle, 0, half + 2)
        peak, sill = top + COURSE, house.top - COURSE
        reach = half * (house.top - peak) / (house.top - top)
        front.add_trapezoid(WALL, peak, house.top, middle, 0, reach)
        if house.top - peak > 16:
            front.add(WINDOW, sill - 7, middle - 3.5, sill, middle + 3.5)
            front.add(CORNICE, sill, middle - 4.5, sill + _SILL_HEIGHT, middle + 4.5)
        return
    ridge = half - (0.0 if house.is_terraced else height * (0.9 if shape == "hip" else 0.2))
    front.add_trapezoid(ROOF, top, bottom, middle, ridge, half + 2)
    if shape == "mansard" and height > 14:
        reach = min(5.0, house.bay_width * 0.25)
        for centre in map(house.bay_centre, range(house.bays)):
            front.add_trapezoid(CORNICE, bottom - 14, bottom - 10, centre, 1, reach + 2)
            front.add(WINDOW, bottom - 10, centre - reach, bottom - 1, centre + reach)
    for chimney in rng.uniform(middle - ridge + 5, middle + ridge - 5, rng.integers(0, 3)):
        front.add(CHIMNEY, chimney_top, chimney - 4, top + 3, chimney + 4)


def _add_upper_storey(front: HouseFront, house: _House, storey: int) -> None:
    bottom = house.storey_top(storey - 1)
    reach = min(house.window_width / 2 + 3.5, house.bay_width / 2 - 0.5)
    for bay in range(house.bays):
        _add_window(front, house, storey, bay)
        if storey == house.balcony_storey and house.has_balcony[bay]:
            centre = house.bay_centre(bay)
            front.add(BALCONY, bottom - 13, centre - reach, bottom - 2, centre + reach)
    if house.has_bands:
        front.add(CORNICE, bottom - _BAND_HEIGHT, house.left, bottom, house.right)


def _add_window(front: HouseFront, house: _House, storey: int, bay: int) -> None:
    centre, half = house.bay_centre(bay), house.window_width / 2
    bottom = house.storey_top(storey) + (house.courses - 1) * COURSE
    top, reach = bottom - house.window_height, half + 1.5
    front.add(WINDOW, top, centre - half, bottom, centre + half)
    if house.has_shutters:
        wing = house.window_width * _SHUTTER_SHARE
        front.add(SHUTTER, top, centre - half - wing, bottom, centre - half)
        front.add(SHUTTER, top, centre + half, bottom, centre + half + wing)
    else:
        front.add(CORNICE, top - _SILL_HEIGHT, centre - reach, top, centre + reach)
    front.add(CORNICE, bottom, centre - reach, bottom + _SILL_HEIGHT, centre + reach)


def _add_ground_floor(front: HouseFront, house: _House) -> None:
    for bay in range(house.bays):
        centre = house.bay_centre(bay)
        if bay == house.door_bay:
            top, half = house.ground - min(house.courses * COURSE - 5, 26), min(7.0, house.bay_width * 0.3)
            front.add(CORNICE, top - 2, centre - half - 2, house.ground, centre + half + 2)
            front.add(DOOR, top, centre - half, house.ground - 1, centre + half)
        elif house.has_shop:
            half = house.bay_width * 0.46
            front.add(SHOP, house.storey_top(0) + 1, centre - half, house.ground, centre + half)
        else:
            _add_window(front, house, 0, bay)


def _add_plants(rng: np.random.Generator, front: HouseFront, house: _House) -> None:
    """Add bushes beside a free-standing house, and small ones in front of some houses."""
    for left, right in [] if house.is_terraced else [(0.0, house.left), (house.right, front.width)]:
        if rng.random() < 0.7:
            radius = (right - left) * rng.uniform(0.35, 0.5)
            rows = house.ground - radius * rng.uniform(0.6, 1.6, 3)
            columns = rng.uniform(left + radius * 0.6, right - radius * 0.6, 3)
            centres = [(house.ground - radius * 0.7, (left + right) / 2), *zip(rows, columns, strict=True)]
            front.add_ellipses(PLANT, centres, radius, radius)
    for bay in np.flatnonzero(rng.random(house.bays) < 0.15).tolist():
        edge = house.left + bay * house.bay_width
        radius = rng.uniform(3.5, 5.5)
        row = house.ground + 1 - 2.2 * radius
        front.add_ellipses(PLANT, [(row, edge), (row + radius * 1.2, edge)], radius * 1.2, radius)
