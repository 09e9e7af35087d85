"""The appearance of synthetic house fronts: materials and shadows follow from the geometry, light and wear are random.

Textures start at the upper left corner of their surface, so that courses, panes and panels can be inferred from a label
map. Light comes from the upper left.
"""

from copy import copy

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from data.facades import house_front as kinds
from data.facades.house_front import CLASS_COLORS, COURSE, HouseFront

FloatArray = NDArray[np.float32]
Lengths = FloatArray | float
Colour = tuple[int, int, int]

_WHITE_PAINT, _IRON, _DARK_WOOD = (238, 234, 226), (34, 36, 42), (66, 48, 38)
_MORTAR, _BLIND, _GLASS = (208, 192, 170), (226, 214, 188), (150, 180, 204)
_BRICK_LENGTH, _SLATE_LENGTH = 12.0, 6.0

_EXPOSURE_SPREAD, _WARMTH_SPREAD = 0.08, 0.03  # half widths of uniform distributions of factors
_TINT_SIGMA, _INSTANCE_SIGMA = 0.025, 0.03  # of factors, per class and per instance
_NOISE_SIGMA = 2.5  # in levels of 255
_BLIND_SHARE = 0.15  # of the windows, which have a blind
_SHADOW_DEPTH = {kinds.CORNICE: 5.0, kinds.BALCONY: 5.0}  # of the shadow downwards
# Height and length of parts that differ in brightness, and the standard deviation of that factor.
_GRAIN = {
    kinds.WALL: (COURSE, _BRICK_LENGTH, 0.05),
    kinds.ROOF: (COURSE, _SLATE_LENGTH, 0.05),
    kinds.PLANT: (1.6, 1.6, 0.13),
}

# In the order of the classes.
_COLOURS = (
    *((98, 154, 214), (172, 92, 68), (98, 108, 126), _GLASS, (38, 84, 92), (84, 132, 100)),
    *((128, 134, 140), (216, 204, 182), _DARK_WOOD, (134, 84, 70), (70, 106, 48), (186, 178, 166)),
)
# Strength of the changes of brightness by age and dirt.
_WEATHERING = {
    kinds.WALL: 0.07,
    kinds.ROOF: 0.07,
    kinds.CORNICE: 0.06,
    kinds.CHIMNEY: 0.06,
    kinds.PLANT: 0.08,
    kinds.PAVEMENT: 0.06,
}

# A winter night: what is left of the daylight, the colours of snow, lamps and frames before them, and for each class
# on which snow lies its depth at the top and the share that it covers below.
_MOONLIGHT, _SNOW, _LAMP, _DARK_FRAME = (0.34, 0.37, 0.52), (178, 192, 222), (255, 208, 118), (58, 44, 40)
_SNOW_COVER = {
    kinds.ROOF: (4.0, 0.72),
    kinds.CORNICE: (2.0, 0.0),
    kinds.SHOP: (3.5, 0.0),
    kinds.CHIMNEY: (3.0, 0.0),
    kinds.BALCONY: (2.5, 0.0),
    kinds.PLANT: (5.0, 0.3),
    kinds.PAVEMENT: (2.0, 0.7),
}


def paint(rng: np.random.Generator, front: HouseFront) -> NDArray[np.uint8]:
    """Paint a house front under random light, weather and wear; return a (3, H, W) uint8 RGB image."""
    labels, instances = front.labels, front.instances
    photo = np.zeros((3, *labels.shape), np.float32)
    for surface in dict.fromkeys(front.classes):
        is_here = labels == surface
        surfaces = _Paint(front, is_here, _COLOURS[surface])
        _paint_shell(surfaces, surface)
        _paint_opening(surfaces, surface)
        if surface in _GRAIN:
            surfaces.shade(_grain(rng, surfaces, *_GRAIN[surface]))
        if surface == kinds.WINDOW:
            _draw_blinds(rng, surfaces, front.surfaces[is_here], len(front.classes))
        photo[:, is_here] = surfaces.colour
    strength = np.asarray([_WEATHERING.get(surface, 0) for surface in range(len(CLASS_COLORS))], np.float32)[labels]
    stains = 1 + strength * np.clip(_smooth_noise(rng, labels.shape, 4, 14), -1.5, 1)  # longer than wide
    light = np.where(labels == kinds.SKY, np.float32(1), _shadows(front) * _daylight(front))
    photo *= stains * light
    clouds = np.clip(_smooth_noise(rng, labels.shape, 10, 5) - 0.5, 0, 0.5) * (labels == kinds.SKY)
    photo += clouds * (246 - photo)
    exposure = 1 + rng.uniform(-_EXPOSURE_SPREAD, _EXPOSURE_SPREAD)
    warmth = 1 + rng.uniform(-_WARMTH_SPREAD, _WARMTH_SPREAD) * np.asarray([[1.0], [0.0], [-1.0]])
    tints = 1 + _TINT_SIGMA * rng.standard_normal((3, len(CLASS_COLORS)))
    levels = 1 + _INSTANCE_SIGMA * rng.standard_normal(int(instances.max()) + 1)
    photo *= (exposure * warmth * tints).astype(np.float32)[:, labels] * levels.astype(np.float32)[instances]
    photo += rng.standard_normal(photo.shape, np.float32) * np.float32(_NOISE_SIGMA)
    return np.clip(np.rint(photo), 0, 255).astype(np.uint8)


def paint_winter_night(rng: np.random.Generator, front: HouseFront) -> NDArray[np.uint8]:
    """Return what `paint` makes of the same arguments, on a winter night: lit windows, and snow on what faces up."""
    photo = paint(rng, front).astype(np.float32)
    labels = front.labels
    for surface in dict.fromkeys(front.classes):
        is_here = labels == surface
        surfaces = _Paint(front, is_here, _LAMP)
        if surface == kinds.WINDOW:
            surfaces.shade(surfaces.down(1.0, 0.78))
            _paint_sash(surfaces, _DARK_FRAME)
        else:
            surfaces.colour = photo[:, is_here] * np.asarray(_MOONLIGHT, np.float32)[:, None]
        if surface == kinds.SKY:
            surfaces.lay((12, 16, 44), surfaces.down(0.85, 0.45))
        if surface == kinds.SHOP:
            surfaces.lay(_LAMP, 0.75 * _shop_panes(surfaces))
        if surface in _SNOW_COVER:
            depth, below = _SNOW_COVER[surface]
            surfaces.lay(_SNOW, np.maximum(surfaces.rows(0, depth), np.float32(below)))
        photo[:, is_here] = surfaces.colour
    photo += rng.standard_normal(photo.shape, np.float32) * np.float32(_NOISE_SIGMA)
    return np.clip(np.rint(photo), 0, 255).astype(np.uint8)


def _shadows(front: HouseFront) -> FloatArray:
    """Return an (H, W) factor: ledges and balconies darken what is below and to the right of them, the nearest most."""
    shade = np.ones(front.surfaces.shape, np.float32)
    boxes = [(box, _SHADOW_DEPTH.get(surface, 0)) for box, surface in zip(front.boxes, front.classes, strict=True)]
    for (top, left, bottom, right), depth in [*boxes, (front.wall, 4.0)]:
        reach = min(round(depth * front.unit), round(1.3 * (bottom - top)))
        shift = round(0.3 * reach)
        below = shade[bottom : bottom + reach, left + shift : right + shift]
        np.minimum(below, np.linspace(0.5, 0.95, reach, dtype=np.float32)[: len(below), None], out=below)
    return shade


def _daylight(front: HouseFront) -> FloatArray:
    """Return an (H, W) factor: buildings are brightest at the upper left, and dirty near the ground."""
    top, left, bottom, right = front.wall
    y, x = (np.arange(side, dtype=np.float32) for side in front.surfaces.shape)
    rows, columns = np.clip((y - top) / (bottom - top), 0, 1), np.clip((x - left) / (right - left), 0, 1)
    foot = np.clip((y - bottom) / (8 * front.unit) + 1, 0, 1) * (y < bottom)
    return (1.08 - 0.14 * rows - 0.15 * foot)[:, None] * (1.07 - 0.16 * columns)


def _smooth_noise(rng: np.random.Generator, shape: tuple[int, ...], rows: int, columns: int) -> FloatArray:
    """Return (H, W) noise of about unit variance that varies over an H / `rows` and a W / `columns`."""
    nodes = Image.fromarray(rng.standard_normal((rows + 1, columns + 1), np.float32))
    return np.asarray(
        nodes.resize((shape[1], shape[0]), Image.Resampling.BILINEAR, (0.5, 0.5, columns + 0.5, rows + 0.5))
    )


class _Paint:
    """Paints the pixels of one class, with covers: the opacity of a colour at each pixel, 0..1.

    A strip that ends inside a pixel covers a part of it, so that a joint thinner than a pixel stays visible.

    y, x: (N,) places of the pixels, from the upper left corner of their surface. height, width: (N,) of the surface.
    pixel: its side. colour: (3, N) float32 RGB, about 0..255.
    """

    def __init__(self, front: HouseFront, is_here: NDArray[np.bool_], colour: Colour) -> None:
        self.pixel = np.float32(1 / front.unit)
        boxes = np.asarray(front.boxes, np.float32)[front.surfaces[is_here]].T * self.pixel
        self.y, self.x = ((place.astype(np.float32) + np.float32(0.5)) * self.pixel for place in np.nonzero(is_here))
        self.y -= boxes[0]
        self.x -= boxes[1]
        self.height, self.width = boxes[2] - boxes[0], boxes[3] - boxes[1]
        self.colour: FloatArray = np.tile(_column(colour), len(self.y))

    def lay(self, colour: Colour, cover: FloatArray) -> None:
        """Blend a colour in."""
        self.colour += cover * (_column(colour) - self.colour)

    def shade(self, factor: FloatArray) -> None:
        self.colour *= factor

    def strip(self, places: FloatArray, start: Lengths, end: Lengths) -> FloatArray:
        """Return the cover of what lies between two `places`, which are y or x."""
        half = self.pixel / 2
        return np.clip((np.minimum(places + half, end) - np.maximum(places - half, start)) / self.pixel, 0, 1)

    def bars(self, places: FloatArray, period: Lengths, thickness: float, offset: float = 0) -> FloatArray:
        """Return the cover of bars at every offset + k * period."""
        place = (places - np.float32(offset)) % period
        return self.strip(place, 0, thickness) + self.strip(place - period, 0, thickness)

    def rows(self, start: Lengths, end: Lengths) -> FloatArray:
        return self.strip(self.y, start, end)

    def columns(self, start: Lengths, end: Lengths) -> FloatArray:
        return self.strip(self.x, start, end)

    def frame(self, thickness: float) -> FloatArray:
        """Return the cover of a frame along the edges."""
        inner = self.rows(thickness, self.height - thickness) * self.columns(thickness, self.width - thickness)
        return 1 - inner

    def down(self, first: float, last: float) -> FloatArray:
        """Return values that change linearly from the top to the bottom of each surface."""
        return first + (last - first) * self.y / self.height

    def across(self, first: float, last: float) -> FloatArray:
        """Return values that change linearly from the left to the right of each surface."""
        return first + (last - first) * self.x / self.width

    def joints(self, length: float, thickness: float) -> FloatArray:
        """Return the cover of the joints between parts of `length` in courses, of which each other one is shifted."""
        shifted = self.x + np.float32(length / 2) * (self.y // COURSE % 2)
        upright = self.bars(shifted, length, thickness, -thickness)
        return np.maximum(upright, self.bars(self.y, COURSE, thickness, -thickness))

    def upper(self, share: float, colour: Colour) -> "_Paint":
        """Return the paint of an upper part of each surface, for `put`; it has all pixels."""
        part = copy(self)
        part.height, part.colour = share * self.height, np.tile(_column(colour), len(self.y))
        return part

    def put(self, part: "_Paint") -> None:
        """Copy an upper part."""
        self.colour = np.where(self.y < part.height, part.colour, self.colour)


def _column(colour: Colour) -> FloatArray:
    return np.asarray(colour, np.float32)[:, None]


def _draw_blinds(rng: np.random.Generator, paint: _Paint, surfaces: NDArray[np.int32], n_surfaces: int) -> None:
    """Draw a linen blind over the upper panes of some windows."""
    shares = np.where(rng.random(n_surfaces) < _BLIND_SHARE, rng.uniform(0.3, 0.6, n_surfaces), 0)
    ends = shares.astype(np.float32)[surfaces]
    paint.lay(_BLIND, 0.65 * paint.rows(1.5, ends * paint.height) * paint.columns(1.5, paint.width - 1.5))


def _grain(rng: np.random.Generator, paint: _Paint, height: float, length: float, sigma: float) -> FloatArray:
    """Return a factor: the brightness of single bricks, slates or leaves."""
    row = paint.y // height
    part = (paint.x / length + 0.5 * (row % 2)) // 1
    factors = 1 + sigma * rng.standard_normal((int(row.max()) + 1, int(part.max()) + 1), np.float32)
    return factors[row.astype(np.intp), part.astype(np.intp)]


def _paint_shell(paint: _Paint, surface: int) -> None:
    """Paint the details of a surface of the house's shell or of its surroundings."""
    match surface:
        case kinds.SKY:
            paint.lay((222, 232, 238), paint.down(0, 1))
        case kinds.WALL:
            paint.shade(1.14 - 0.3 * (paint.y / COURSE % 1))
            paint.lay(_MORTAR, 0.9 * paint.joints(_BRICK_LENGTH, 1.1))
        case kinds.CHIMNEY:
            paint.lay(_MORTAR, 0.6 * paint.joints(_BRICK_LENGTH / 2, 0.9))
            paint.shade(paint.across(1.18, 0.7))
            paint.lay((120, 112, 104), paint.rows(0, 2.5))
            paint.lay((52, 46, 44), 0.7 * paint.rows(2.5, 3.7))
        case kinds.ROOF:
            paint.shade(1.3 - 0.5 * (paint.y / COURSE % 1))
            paint.lay((44, 48, 58), 0.75 * paint.joints(_SLATE_LENGTH, 1.0))
            paint.shade(paint.down(1.12, 0.9))
            paint.lay((150, 156, 166), paint.rows(0, 1.5))
        case kinds.CORNICE:  # moulded stone, bright above and dark below; high ones have a row of dentils
            paint.shade(paint.down(1.14, 0.86))
            teeth = paint.bars(paint.x, 4.0, 1.8) * paint.rows(0.45 * paint.height, 0.85 * paint.height)
            paint.lay((122, 110, 92), 0.8 * teeth * ((paint.height > 2.6) & (paint.height < paint.width)))
            paint.lay((132, 120, 102), 0.8 * paint.rows(paint.height - 0.7, paint.height))
        case kinds.PLANT:
            factor = paint.down(1.42, 0.95) - paint.across(0, 0.23)
            for size, strength in ((7.3, 0.16), (3.1, 0.12)):  # round clumps in staggered rows, of two sizes
                row = paint.y // size
                depth, along = paint.y / size % 1, (paint.x / (1.3 * size) + 0.5 * (row % 2)) % 1
                factor += strength * (1 - 4 * (depth - 0.35) ** 2 - 4 * (along - 0.35) ** 2)
            paint.shade(factor)
        case kinds.PAVEMENT:  # slabs, a kerb and the road
            kerb, joint = 0.62 * paint.height, 0.25 * paint.height
            paint.lay((120, 114, 106), 0.8 * paint.bars(paint.x, 14.0, 0.9))
            paint.lay((120, 114, 106), 0.8 * paint.rows(joint, joint + 0.8))
            paint.lay((98, 98, 102), paint.rows(kerb + 1.5, paint.height))
            paint.lay((216, 212, 204), paint.rows(kerb - 1.2, kerb))
            paint.lay((92, 88, 84), paint.rows(kerb, kerb + 1.5))


def _paint_opening(paint: _Paint, surface: int) -> None:
    """Paint the details of a door, of a window, or of something in front of one."""
    match surface:
        case kinds.WINDOW:
            _paint_glass(paint)
            _paint_sash(paint, _WHITE_PAINT)
            paint.shade(1 - 0.22 * paint.rows(paint.height - 0.8, paint.height))
        case kinds.DOOR:
            _paint_door(paint)
        case kinds.SHUTTER:
            paint.lay((30, 58, 44), 0.8 * paint.bars(paint.y, 3.0, 1.3, 1.7))
            middle = paint.height / 2
            paint.lay((98, 148, 114), np.maximum(paint.frame(1.1), paint.rows(middle - 0.8, middle + 0.8)))
            paint.shade(paint.across(1.1, 0.9))
        case kinds.BALCONY:  # iron rails in front of a dim window, on a slab of stone
            paint.shade(paint.down(0.75, 1.1))
            paint.lay(_IRON, 0.9 * paint.bars(paint.x, 3.0, 1.2))
            paint.lay(_IRON, paint.rows(0.4, 1.8))
            paint.lay((226, 218, 202), paint.rows(paint.height - 3.4, paint.height))
            paint.lay((138, 128, 114), paint.rows(paint.height - 1.2, paint.height))
        case kinds.SHOP:  # a striped awning over lit panes in a wooden frame
            panes = _shop_panes(paint)
            paint.lay((66, 78, 88), panes)
            paint.lay((244, 200, 128), panes * paint.down(-0.6, 1.1).clip(0, 1))
            pane_width = paint.width / np.maximum(np.rint(paint.width / 12), 1)
            paint.lay(_DARK_WOOD, paint.bars(paint.x, pane_width, 1.2, -0.6))
            paint.lay((104, 80, 62), paint.rows(0.88 * paint.height, 0.95 * paint.height))
            awning = paint.upper(0.32, (236, 228, 212))
            paint.shade(1 - 0.55 * paint.rows(awning.height, awning.height + 2.5))
            awning.lay((178, 50, 48), awning.bars(awning.x, 7.0, 3.5))
            awning.shade(awning.down(1.1, 0.8))
            paint.put(awning)


def _paint_glass(paint: _Paint) -> None:
    """Paint a reflected sky above, a dark room below, a slanting streak of light and the shadow of the reveal."""
    paint.lay((38, 50, 66), paint.down(0, 1))
    paint.lay((206, 222, 232), (0.45 - 2 * abs(paint.down(-0.85, 0.15) + paint.across(0, 0.7))).clip(0))
    reveal: FloatArray = np.maximum(paint.rows(0, 2.2), paint.columns(0, 1.6))
    paint.lay((22, 28, 38), 0.6 * reveal)


def _paint_sash(paint: _Paint, colour: Colour) -> None:
    transom, middle = paint.height / 3, paint.width / 2
    paint.lay(colour, paint.rows(transom - 0.55, transom + 0.55))
    paint.lay(colour, paint.columns(middle - 0.55, middle + 0.55) * (paint.width >= 6))
    paint.lay(colour, paint.frame(1.5))


def _paint_door(paint: _Paint) -> None:
    """Paint two columns of three sunk panels below a fanlight, and a knob."""
    paint.shade(paint.down(1.15, 0.8))
    fanlight = paint.upper(0.22, _GLASS)
    # the upper and left edges of panels are in shadow, the lower and right ones are lit
    height, width, rim = (paint.height - fanlight.height - 3.2) / 3, (paint.width - 3.2) / 2, 0.9
    y, x = (paint.y - fanlight.height - 1.6) % height, (paint.x - 1.6) % width
    within = paint.rows(fanlight.height + 1.6, paint.height - 1.6) * paint.columns(1.6, paint.width - 1.6)
    within *= paint.strip(y, 0.5, height - 0.5) * paint.strip(x, 0.5, width - 0.5)
    paint.lay((12, 32, 38), 0.65 * within * np.maximum(paint.strip(y, 0, 0.5 + rim), paint.strip(x, 0, 0.5 + rim)))
    lit = np.maximum(paint.strip(y, height - 0.5 - rim, height), paint.strip(x, width - 0.5 - rim, width))
    paint.lay((148, 190, 192), 0.55 * within * lit)
    _paint_glass(fanlight)
    paint.put(fanlight)
    paint.lay(_WHITE_PAINT, paint.rows(fanlight.height - 1, fanlight.height))
    paint.lay((20, 46, 52), 0.8 * paint.frame(1))
    top, left = 0.6 * paint.height, paint.width - 3.4
    paint.lay((226, 190, 96), paint.rows(top, top + 1.5) * paint.columns(left, left + 1.4))


def _shop_panes(paint: _Paint) -> FloatArray:
    return paint.rows(0.34 * paint.height, 0.84 * paint.height) * paint.columns(1.5, paint.width - 1.5)
