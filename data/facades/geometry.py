"""The geometry of synthetic house fronts: places of storeys, windows and roofs. All lengths in units."""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from data.facades.canvas import COURSE, Canvas, FacadeClass, FacadeLayout

MIN_SIDE = 32
"""Shortest image side in pixels at which the surfaces can still be distinguished."""

_BAND_HEIGHT = 4.0
_SILL_HEIGHT = 2.0
_EAVES_HEIGHT = 4.0
_SHUTTER_SHARE = 0.55
_BAY_WIDTHS = (19.0, 44.0)
# A storey is a whole number of courses high, so that courses meet windows and cornices in the same way everywhere.
_STOREY_COURSES = (4, 5, 6, 7)
_WALL_SHARES = (0.5, 0.76)


class _Roof(Enum):
    FLAT = 0
    HIP = 1
    MANSARD = 2
    GABLE = 3


_ROOF_SHARES = (0.2, 0.3, 0.3, 0.2)


@dataclass(frozen=True)
class _Frame:
    """Outline of the building. A terraced house spans the width of the image."""

    top: float
    ground: float
    left: float
    right: float
    storeys: int
    courses: int
    bays: int
    is_terraced: bool

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def bay_width(self) -> float:
        return self.width / self.bays

    @property
    def storey_height(self) -> float:
        return self.courses * COURSE

    def bay_centre(self, bay: int) -> float:
        return self.left + (bay + 0.5) * self.bay_width

    def storey_top(self, storey: int) -> float:
        """Return the top of a storey; 0 is the ground floor."""
        return self.ground - (storey + 1) * self.storey_height


@dataclass(frozen=True)
class _Style:
    """Properties that all storeys of a building share. Where balcony_storey is 0, there are no balconies."""

    window_width: float
    window_height: float
    has_shutters: bool
    has_bands: bool
    has_shop: bool
    door_bay: int
    balcony_storey: int
    balcony_bays: frozenset[int]


def draw_layout(rng: np.random.Generator, height: int, width: int) -> FacadeLayout:
    """Draw a random house front of `height` x `width` pixels, each at least MIN_SIDE."""
    if min(height, width) < MIN_SIDE:
        raise ValueError(f"a facade needs at least {MIN_SIDE} x {MIN_SIDE} pixels, not {height} x {width}")
    canvas = Canvas(height, width)
    frame = _draw_frame(rng, canvas.height, canvas.width)
    style = _draw_style(rng, frame)
    canvas.box(FacadeClass.SKY, 0, 0, frame.ground, canvas.width)
    canvas.box(FacadeClass.PAVEMENT, frame.ground, 0, canvas.height, canvas.width)
    _add_roof(rng, canvas, frame)
    wall = canvas.box(FacadeClass.WALL, frame.top, frame.left, frame.ground, frame.right)
    _add_eaves(canvas, frame)
    for storey in range(frame.storeys - 1, 0, -1):
        _add_upper_storey(canvas, frame, style, storey)
    _add_ground_floor(canvas, frame, style)
    _add_plants(rng, canvas, frame)
    return FacadeLayout(canvas.labels, canvas.instances, canvas.unit, wall, tuple(canvas.elements))


def _draw_frame(rng: np.random.Generator, height: float, width: float) -> _Frame:
    ground = height - rng.uniform(9, 15)
    low, high = (share * height / COURSE for share in _WALL_SHARES)
    counts = range(2, int(high))
    sizes = [(n, courses) for n in counts for courses in _STOREY_COURSES if low <= n * courses <= high]
    storeys, courses = sizes[rng.integers(len(sizes))]
    is_terraced = bool(rng.random() < 0.4)
    margins = (0.0, 0.0) if is_terraced else rng.uniform(0.06, 0.17, 2) * width
    wall_width = width - margins[0] - margins[1]
    fewest = max(2, int(np.ceil(wall_width / _BAY_WIDTHS[1])))
    most = max(fewest, int(wall_width / _BAY_WIDTHS[0]))
    return _Frame(
        top=ground - storeys * courses * COURSE,
        ground=ground,
        left=float(margins[0]),
        right=float(width - margins[1]),
        storeys=storeys,
        courses=courses,
        bays=int(rng.integers(fewest, most + 1)),
        is_terraced=is_terraced,
    )


def _draw_style(rng: np.random.Generator, frame: _Frame) -> _Style:
    has_shutters = bool(rng.random() < 0.4)
    share = rng.uniform(0.36, 0.42) if has_shutters else rng.uniform(0.44, 0.6)
    has_low_lintel = frame.courses > 5 and rng.random() < 0.5
    has_balconies = rng.random() < 0.65
    balcony_share = 1.0 if rng.random() < 0.5 else 0.5
    return _Style(
        window_width=min(frame.bay_width * share, 20),
        window_height=(frame.courses - 2 - has_low_lintel) * COURSE,
        has_shutters=has_shutters,
        has_bands=bool(rng.random() < 0.6),
        has_shop=bool(rng.random() < 0.4),
        door_bay=int(rng.integers(frame.bays)),
        balcony_storey=int(rng.integers(1, frame.storeys)) if has_balconies else 0,
        balcony_bays=frozenset(np.flatnonzero(rng.random(frame.bays) < balcony_share).tolist()),
    )


def _add_roof(rng: np.random.Generator, canvas: Canvas, frame: _Frame) -> None:
    space = frame.top - _EAVES_HEIGHT
    height = min(rng.uniform(14, 30), space - 5)
    kind = list(_Roof)[rng.choice(len(_Roof), p=_ROOF_SHARES)]
    if height < 9 or (kind is _Roof.GABLE and frame.width > 7 * height):
        kind = _Roof.FLAT
    if kind is _Roof.FLAT:
        parapet = space - COURSE
        canvas.box(FacadeClass.WALL, parapet, frame.left, space, frame.right)
        canvas.box(FacadeClass.CORNICE, parapet - _SILL_HEIGHT, frame.left - 1, parapet, frame.right + 1)
        return
    top = space - height
    chimney_top = max(top - 6, 1.5)
    if kind is _Roof.GABLE:
        chimney = frame.left + rng.choice([0.2, 0.8]) * frame.width
        canvas.box(FacadeClass.CHIMNEY, chimney_top, chimney - 4, frame.top, chimney + 4)
        _add_gable(canvas, frame, top)
        return
    inset = 0.0 if frame.is_terraced else height * (0.9 if kind is _Roof.HIP else 0.2)
    ridge, eaves = (frame.left + inset, frame.right - inset), (frame.left - 2, frame.right + 2)
    canvas.trapezoid(FacadeClass.ROOF, top, space, upper=ridge, lower=eaves)
    if kind is _Roof.MANSARD and height > 14:
        _add_dormers(canvas, frame, space)
    for chimney in rng.uniform(ridge[0] + 5, ridge[1] - 5, rng.integers(0, 3)):
        canvas.box(FacadeClass.CHIMNEY, chimney_top, chimney - 4, top + 3, chimney + 4)


def _add_gable(canvas: Canvas, frame: _Frame, top: float) -> None:
    bottom = frame.top
    middle = (frame.left + frame.right) / 2
    slope = frame.width / 2 / (bottom - top)
    eaves = (frame.left - 2, frame.right + 2)
    canvas.trapezoid(FacadeClass.ROOF, top, bottom, upper=(middle, middle), lower=eaves)
    peak = top + COURSE
    reach = slope * (bottom - peak)
    canvas.trapezoid(FacadeClass.WALL, peak, bottom, upper=(middle, middle), lower=(middle - reach, middle + reach))
    if bottom - peak > 16:
        sill = bottom - COURSE
        canvas.box(FacadeClass.WINDOW, sill - 7, middle - 3.5, sill, middle + 3.5)
        canvas.box(FacadeClass.CORNICE, sill, middle - 4.5, sill + _SILL_HEIGHT, middle + 4.5)


def _add_dormers(canvas: Canvas, frame: _Frame, bottom: float) -> None:
    half = min(5.0, frame.bay_width * 0.25)
    for bay in range(frame.bays):
        centre = frame.bay_centre(bay)
        canvas.trapezoid(
            FacadeClass.CORNICE,
            bottom - 14,
            bottom - 10,
            upper=(centre - 1, centre + 1),
            lower=(centre - half - 2, centre + half + 2),
        )
        canvas.box(FacadeClass.WINDOW, bottom - 10, centre - half, bottom - 1, centre + half)


def _add_eaves(canvas: Canvas, frame: _Frame) -> None:
    canvas.box(FacadeClass.CORNICE, frame.top - _EAVES_HEIGHT, frame.left - 2, frame.top, frame.right + 2)


def _add_upper_storey(canvas: Canvas, frame: _Frame, style: _Style, storey: int) -> None:
    for bay in range(frame.bays):
        _add_window(canvas, frame, style, storey, bay)
        if storey == style.balcony_storey and bay in style.balcony_bays:
            _add_balcony(canvas, frame, style, bay)
    if style.has_bands:
        bottom = frame.storey_top(storey - 1)
        canvas.box(FacadeClass.CORNICE, bottom - _BAND_HEIGHT, frame.left, bottom, frame.right)


def _add_window(canvas: Canvas, frame: _Frame, style: _Style, storey: int, bay: int) -> None:
    centre, half = frame.bay_centre(bay), style.window_width / 2
    bottom = frame.storey_top(storey) + (frame.courses - 1) * COURSE
    top = bottom - style.window_height
    canvas.box(FacadeClass.WINDOW, top, centre - half, bottom, centre + half)
    reach = half + 1.5
    if style.has_shutters:
        wing = style.window_width * _SHUTTER_SHARE
        canvas.box(FacadeClass.SHUTTER, top, centre - half - wing, bottom, centre - half)
        canvas.box(FacadeClass.SHUTTER, top, centre + half, bottom, centre + half + wing)
    else:
        canvas.box(FacadeClass.CORNICE, top - _SILL_HEIGHT, centre - reach, top, centre + reach)
    canvas.box(FacadeClass.CORNICE, bottom, centre - reach, bottom + _SILL_HEIGHT, centre + reach)


def _add_balcony(canvas: Canvas, frame: _Frame, style: _Style, bay: int) -> None:
    centre, reach = frame.bay_centre(bay), min(style.window_width / 2 + 3.5, frame.bay_width / 2 - 0.5)
    bottom = frame.storey_top(style.balcony_storey - 1) - 2
    canvas.box(FacadeClass.BALCONY, bottom - 11, centre - reach, bottom, centre + reach)


def _add_ground_floor(canvas: Canvas, frame: _Frame, style: _Style) -> None:
    top = frame.storey_top(0)
    door_half = min(7.0, frame.bay_width * 0.3)
    for bay in range(frame.bays):
        centre = frame.bay_centre(bay)
        if bay == style.door_bay:
            door_top = frame.ground - min(frame.storey_height - 5, 26)
            reach = door_half + 2
            canvas.box(FacadeClass.CORNICE, door_top - 2, centre - reach, frame.ground, centre + reach)
            canvas.box(FacadeClass.DOOR, door_top, centre - door_half, frame.ground - 1, centre + door_half)
        elif style.has_shop:
            half = frame.bay_width * 0.46
            canvas.box(FacadeClass.SHOP, top + 1, centre - half, frame.ground, centre + half)
        else:
            _add_window(canvas, frame, style, 0, bay)


def _add_plants(rng: np.random.Generator, canvas: Canvas, frame: _Frame) -> None:
    """Add bushes beside a free-standing house, and small ones in front of some houses."""
    margins = [] if frame.is_terraced else [(0.0, frame.left), (frame.right, canvas.width)]
    for left, right in margins:
        if rng.random() < 0.7:
            radius = (right - left) * rng.uniform(0.35, 0.5)
            rows = frame.ground - radius * rng.uniform(0.6, 1.6, 3)
            columns = rng.uniform(left + radius * 0.6, right - radius * 0.6, 3)
            centres = [(frame.ground - radius * 0.7, (left + right) / 2), *zip(rows, columns, strict=True)]
            canvas.ellipses(FacadeClass.PLANT, centres, (radius, radius))
    for bay in np.flatnonzero(rng.random(frame.bays) < 0.15):
        edge = frame.left + float(bay) * frame.bay_width
        radius = rng.uniform(3.5, 5.5)
        row = frame.ground + 1 - 2.2 * radius
        canvas.ellipses(FacadeClass.PLANT, [(row, edge), (row + radius * 1.2, edge)], (radius * 1.2, radius))
