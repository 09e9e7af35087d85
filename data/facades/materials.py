"""Textures of the surfaces of a synthetic house front: one per class, without randomness.

A texture is a function of the size of its surface alone and starts at the surface's upper left corner, so that
courses, panes and panels can be inferred from a label map. Light comes from the upper left.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import numpy as np

from data.facades.canvas import COURSE, FacadeClass
from data.facades.surface import FloatArray, Surface, split_into_parts

BRICK_LENGTH = 12.0
"""Length in units of a brick of the wall."""

SLATE_LENGTH = 6.0
"""Length in units of a slate of the roof."""

_WHITE_PAINT = (238, 234, 226)
_STONE = (216, 204, 182)
_MORTAR = (208, 192, 170)
_IRON = (34, 36, 42)
_DARK_WOOD = (66, 48, 38)


# The windows of a house have few sizes, and so do the houses of a data set: most textures are used many times.
@lru_cache(maxsize=1024)
def material_texture(kind: FacadeClass, height: int, width: int, unit: float) -> FloatArray:
    """Return the texture of a surface of `height` x `width` pixels at `unit` pixels per unit of length.

    It is a read-only (height, width, 3) float32 array, about 0..255.
    """
    surface = Surface(np.zeros((height, width, 3), np.float32), unit)
    _PAINTERS[kind](surface)
    surface.pixels.setflags(write=False)
    return surface.pixels


def _courses(surface: Surface) -> FloatArray:
    """Return the (H, 1) depth of each pixel row in its course, 0..1."""
    return split_into_parts(len(surface.pixels), surface.unit * COURSE)[1][:, None]


def _joints(surface: Surface, length: float, thickness: float) -> FloatArray:
    """Return the (H, W) cover of the joints between parts of `length`; every other course is shifted by half a part."""
    course, _ = split_into_parts(len(surface.pixels), surface.unit * COURSE)
    even, odd = (surface.column_bars(length, thickness, start - thickness) for start in (0.0, length / 2))
    upright = np.where(course[:, None] % 2 == 0, even, odd)
    return np.maximum(upright, surface.row_bars(COURSE, thickness, COURSE - thickness))


def _paint_sky(surface: Surface) -> None:
    surface.fill((98, 154, 214))
    surface.lay((222, 232, 238), surface.ramp_down(0, 1))


def _paint_wall(surface: Surface) -> None:
    surface.fill((172, 92, 68))
    surface.shade(1.14 - 0.3 * _courses(surface))
    surface.lay(_MORTAR, 0.9 * _joints(surface, BRICK_LENGTH, 1.1))


def _paint_chimney(surface: Surface) -> None:
    surface.fill((134, 84, 70))
    surface.lay(_MORTAR, 0.6 * _joints(surface, BRICK_LENGTH / 2, 0.9))
    surface.shade(surface.ramp_across(1.18, 0.7))
    surface.lay((120, 112, 104), surface.rows(0, 2.5))
    surface.lay((52, 46, 44), 0.7 * surface.rows(2.5, 3.7))


def _paint_roof(surface: Surface) -> None:
    surface.fill((98, 108, 126))
    surface.shade(1.3 - 0.5 * _courses(surface))
    surface.lay((44, 48, 58), 0.75 * _joints(surface, SLATE_LENGTH, 1.0))
    surface.shade(surface.ramp_down(1.12, 0.9))
    surface.lay((150, 156, 166), surface.rows(0, 1.5))


def _paint_glass(surface: Surface) -> None:
    """Paint a reflected sky above, a dark room below, a slanting streak of light and the shadow of the reveal."""
    surface.fill((150, 180, 204))
    surface.lay((38, 50, 66), surface.ramp_down(0, 1))
    distance = abs(surface.ramp_down(-0.85, 0.15) + surface.ramp_across(0, 0.7))
    surface.lay((206, 222, 232), np.maximum(0.45 - 2 * distance, 0))
    reveal: FloatArray = np.maximum(surface.rows(0, 2.2), surface.columns(0, 1.6))
    surface.lay((22, 28, 38), 0.6 * reveal)


def _paint_window(surface: Surface) -> None:
    _paint_glass(surface)
    transom = surface.height / 3
    surface.lay(_WHITE_PAINT, surface.rows(transom - 0.55, transom + 0.55))
    if surface.width >= 6:
        surface.lay(_WHITE_PAINT, surface.columns(surface.width / 2 - 0.55, surface.width / 2 + 0.55))
    surface.lay(_WHITE_PAINT, surface.frame(1.5))
    surface.shade(1 - 0.22 * surface.rows(surface.height - 0.8, surface.height))


def _paint_door(surface: Surface) -> None:
    surface.fill((38, 84, 92))
    surface.shade(surface.ramp_down(1.15, 0.8))
    fanlight = surface.upper(0.22)
    rows = np.linspace(fanlight.height + 1.6, surface.height - 1.6, 4)
    columns = np.linspace(1.6, surface.width - 1.6, 3)
    for top, bottom in pairwise(rows):
        for left, right in pairwise(columns):
            _sink_panel(surface, (top + 0.5, bottom - 0.5), (left + 0.5, right - 0.5))
    _paint_glass(fanlight)
    surface.lay(_WHITE_PAINT, surface.rows(fanlight.height - 1, fanlight.height))
    surface.lay((20, 46, 52), 0.8 * surface.frame(1))
    knob_top, knob_left = 0.6 * surface.height, surface.width - 3.4
    knob = surface.rows(knob_top, knob_top + 1.5) * surface.columns(knob_left, knob_left + 1.4)
    surface.lay((226, 190, 96), knob)


def _sink_panel(surface: Surface, rows: tuple[float, float], columns: tuple[float, float]) -> None:
    """Bevel a panel into a door: its upper and left edges are in shadow, its lower and right edges are lit."""
    (top, bottom), (left, right) = rows, columns
    rim = 0.9
    height, width = surface.rows(top, bottom), surface.columns(left, right)
    dark = np.maximum(height * surface.columns(left, left + rim), width * surface.rows(top, top + rim))
    light = np.maximum(height * surface.columns(right - rim, right), width * surface.rows(bottom - rim, bottom))
    surface.lay((12, 32, 38), 0.65 * dark)
    surface.lay((148, 190, 192), 0.55 * light)


def _paint_shutter(surface: Surface) -> None:
    surface.fill((84, 132, 100))
    surface.lay((30, 58, 44), 0.8 * surface.row_bars(3.0, 1.3, 1.7))
    middle = surface.height / 2
    surface.lay((98, 148, 114), np.maximum(surface.frame(1.1), surface.rows(middle - 0.8, middle + 0.8)))
    surface.shade(surface.ramp_across(1.1, 0.9))


def _paint_balcony(surface: Surface) -> None:
    """Paint iron rails in front of a dim window, on a slab of stone."""
    surface.fill((128, 134, 140))
    surface.shade(surface.ramp_down(0.75, 1.1))
    surface.lay(_IRON, 0.9 * surface.column_bars(3.0, 1.2, 0.0))
    surface.lay(_IRON, surface.rows(0.4, 1.8))
    surface.lay((226, 218, 202), surface.rows(surface.height - 3.4, surface.height))
    surface.lay((138, 128, 114), surface.rows(surface.height - 1.2, surface.height))


def _paint_cornice(surface: Surface) -> None:
    """Paint moulded stone, bright above and dark below; high ones have a row of dentils."""
    surface.fill(_STONE)
    surface.shade(surface.ramp_down(1.14, 0.86))
    if 2.6 < surface.height < surface.width:
        teeth = surface.column_bars(4.0, 1.8, 0.0) * surface.rows(0.45 * surface.height, 0.85 * surface.height)
        surface.lay((122, 110, 92), 0.8 * teeth)
    surface.lay((132, 120, 102), 0.8 * surface.rows(surface.height - 0.7, surface.height))


def _paint_shop(surface: Surface) -> None:
    """Paint a striped awning over lit panes in a wooden frame."""
    height, width = surface.height, surface.width
    surface.fill(_DARK_WOOD)
    panes = surface.rows(0.34 * height, 0.84 * height) * surface.columns(1.5, width - 1.5)
    surface.lay((66, 78, 88), panes)
    surface.lay((244, 200, 128), panes * np.clip(surface.ramp_down(-0.6, 1.1), 0, 1))
    count = max(1, round(width / 12))
    for post in np.linspace(0, width, count + 1)[1:-1]:
        surface.lay(_DARK_WOOD, surface.columns(post - 0.6, post + 0.6))
    surface.lay((104, 80, 62), surface.rows(0.88 * height, 0.95 * height))
    awning = surface.upper(0.32)
    awning.fill((236, 228, 212))
    awning.lay((178, 50, 48), awning.column_bars(7.0, 3.5, 0.0))
    awning.shade(awning.ramp_down(1.1, 0.8))
    surface.shade(1 - 0.55 * surface.rows(awning.height, awning.height + 2.5))


def _clumps(surface: Surface, size: float) -> FloatArray:
    """Return the (H, W) brightness, about -1..1, of round clumps in staggered rows, lit from the upper left."""
    row, depth = split_into_parts(len(surface.pixels), surface.unit * size)
    _, along = split_into_parts(surface.pixels.shape[1], surface.unit * size * 1.3)
    shifted = (along + np.where(row % 2 == 0, np.float32(0), np.float32(0.5))[:, None]) % 1
    return 1 - 4 * (depth[:, None] - 0.35) ** 2 - 4 * (shifted - 0.35) ** 2


def _paint_plant(surface: Surface) -> None:
    surface.fill((70, 106, 48))
    crown = surface.ramp_down(1.42, 0.95) - surface.ramp_across(0, 0.23)
    # Two sizes of clumps hide the rows of each.
    surface.shade(crown + 0.16 * _clumps(surface, 7.3) + 0.12 * _clumps(surface, 3.1))


def _paint_pavement(surface: Surface) -> None:
    """Paint slabs, a kerb and the road."""
    kerb = 0.62 * surface.height
    surface.fill((186, 178, 166))
    surface.lay((120, 114, 106), 0.8 * surface.column_bars(14.0, 0.9, 0.0))
    surface.lay((120, 114, 106), 0.8 * surface.rows(0.25 * surface.height, 0.25 * surface.height + 0.8))
    surface.lay((98, 98, 102), surface.rows(kerb + 1.5, surface.height))
    surface.lay((216, 212, 204), surface.rows(kerb - 1.2, kerb))
    surface.lay((92, 88, 84), surface.rows(kerb, kerb + 1.5))


_PAINTERS: dict[FacadeClass, Callable[[Surface], None]] = {
    FacadeClass.SKY: _paint_sky,
    FacadeClass.WALL: _paint_wall,
    FacadeClass.ROOF: _paint_roof,
    FacadeClass.WINDOW: _paint_window,
    FacadeClass.DOOR: _paint_door,
    FacadeClass.SHUTTER: _paint_shutter,
    FacadeClass.BALCONY: _paint_balcony,
    FacadeClass.CORNICE: _paint_cornice,
    FacadeClass.SHOP: _paint_shop,
    FacadeClass.CHIMNEY: _paint_chimney,
    FacadeClass.PLANT: _paint_plant,
    FacadeClass.PAVEMENT: _paint_pavement,
}
