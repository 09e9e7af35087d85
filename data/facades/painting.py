"""Paint house fronts on a canvas: materials and shadows, by day and on winter nights.

A unit of length is 1/128 of the shorter image side. House fronts therefore look similar at every image size. The light
comes from the upper left.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Floats = NDArray[np.floating]
Colour = tuple[float, float, float]

COURSE = 6.0
"""Height of a course (a row of bricks or slates), in units."""


class _Material(NamedTuple):
    """The appearance of all surfaces of a class.

    label_color: RGB colour in label maps.
    colour: Main RGB colour in images.
    is_object: Whether each surface has its own instance id.
    shadow: Height of the shadow below a surface, in units.
    snow: Height of the snow on the upper edge, in units, and share of snow (0 to 1) on the rest of the surface.
    """

    label_color: tuple[int, int, int]
    colour: Colour
    is_object: bool = False
    shadow: float = 0.0
    snow: tuple[float, float] = (0.0, 0.0)


_MATERIALS = {
    "sky": _Material((135, 206, 250), (98, 154, 214)),
    "wall": _Material((200, 85, 60), (172, 92, 68), shadow=4),
    "roof": _Material((90, 70, 140), (98, 108, 126), snow=(4, 0.72)),
    "window": _Material((30, 80, 200), (150, 180, 204), is_object=True),
    "door": _Material((0, 150, 136), (38, 84, 92), is_object=True),
    "shutter": _Material((150, 215, 90), (30, 58, 44), is_object=True),
    "balcony": _Material((70, 70, 70), (98, 102, 108), is_object=True, shadow=5, snow=(2.5, 0)),
    "cornice": _Material((250, 205, 60), (216, 204, 182), shadow=5, snow=(2, 0)),
    "shop": _Material((235, 60, 160), (66, 48, 38), is_object=True, snow=(3.5, 0)),
    "chimney": _Material((120, 60, 30), (134, 84, 70), is_object=True, snow=(3, 0)),
    "plant": _Material((25, 130, 50), (70, 106, 48), is_object=True, snow=(5, 0.3)),
    "pavement": _Material((185, 185, 185), (186, 178, 166), snow=(2, 0.7)),
}
CLASS_COLORS = {name: material.label_color for name, material in _MATERIALS.items()}
"""RGB colour of each class in label maps, in the order of the class ids."""

_IDS = {name: number for number, name in enumerate(_MATERIALS)}
_OPENINGS = ("window", "door", "shutter", "balcony", "shop")
_WHITE, _IRON, _JOINT = (238, 234, 226), (34, 36, 42), (120, 114, 106)
_MOONLIGHT, _NIGHT_SKY, _LAMP, _SNOW = (0.34, 0.37, 0.52), (12, 16, 44), (255, 208, 118), (178, 192, 222)


class Canvas:
    """An image of a house front. New surfaces cover earlier surfaces.

    labels: Class of each pixel, (H, W) uint8.
    instances: Instance id of each pixel, (H, W) int32. Each object, such as a window, has its own id, at least
        len(CLASS_COLORS). Pixels of other classes have their class id.
    height, width: Size of the image in units.
    """

    def __init__(self, rng: np.random.Generator, height: int, width: int) -> None:
        self.labels: NDArray[np.uint8] = np.zeros((height, width), np.uint8)
        self.instances: NDArray[np.int32] = np.zeros((height, width), np.int32)
        self._unit = min(height, width) / 128  # pixels per unit
        self.height, self.width = height / self._unit, width / self._unit
        self._planes = np.zeros((5, height, width), np.float32)  # red, green, blue, share of lamplight, share of snow
        self._painted: dict[tuple[str, int, int], Floats] = {}
        self._rng, self._n_instances = rng, len(CLASS_COLORS)

    def add(self, name: str, *box: float, inside: Callable[..., np.ndarray] | None = None) -> None:
        """Paint a surface on the box (top, left, bottom, right). `inside(y, x)` can limit it to a part of the box."""
        places = zip(box, self.labels.shape * 2, strict=True)
        top, left, bottom, right = (min(max(round(place * self._unit), 0), side) for place, side in places)
        if top >= bottom or left >= right:
            return
        material, key = _MATERIALS[name], (name, bottom - top, right - left)
        self._cast_shadow(min(round(material.shadow * self._unit), bottom - top), left, bottom, right)
        if key not in self._painted:  # surfaces of equal class and size look the same
            surface = _Surface(self._rng, *key, 1 / self._unit)
            (_paint_opening if name in _OPENINGS else _paint_shell)(surface, name)
            surface.planes[4] = surface.rows(0, material.snow[0]).clip(material.snow[1])
            self._painted[key] = surface.planes
        y, x = (np.arange(top, bottom) + 0.5) / self._unit, (np.arange(left, right) + 0.5) / self._unit
        area, mask = np.s_[..., top:bottom, left:right], inside is None or inside(y[:, None], x)
        instance = self._n_instances if material.is_object else _IDS[name]
        self._n_instances += material.is_object
        for plane, value in ((self._planes, self._painted[key]), (self.labels, _IDS[name]), (self.instances, instance)):
            np.copyto(plane[area], value, where=mask)

    def _cast_shadow(self, reach: int, left: int, bottom: int, right: int) -> None:
        """Darken `reach` rows of pixels below a box, shifted a little to the right. The sky stays unchanged."""
        area = np.s_[bottom : bottom + reach, left + round(0.3 * reach) : right + round(0.3 * reach)]
        is_sky = self.labels[area] == _IDS["sky"]
        ramp = np.arange(len(is_sky), dtype=np.float32)[:, None] * 0.45 / max(reach, 1) + 0.5
        self._planes[:3, *area] *= np.where(is_sky, np.float32(1), ramp)

    def photo(self, *, is_night: bool = False) -> NDArray[np.uint8]:
        """Return the image with random light, stains and noise, (3, H, W) uint8 RGB."""
        rng, labels, (height, width) = self._rng, self.labels, self.labels.shape
        y, x = np.linspace(0, 1, height, dtype=np.float32)[:, None], np.linspace(0, 1, width, dtype=np.float32)
        is_sky = labels == _IDS["sky"]
        stains = 1 + 0.045 * _smooth_noise(rng, labels.shape, 4, 14).clip(-1.5, 1)
        light = np.where(is_sky, 1, (1.12 - 0.16 * y) * (1.07 - 0.14 * x) * stains)
        levels = 1 + 0.03 * rng.standard_normal(self._n_instances, np.float32)
        tints = 1 + 0.025 * rng.standard_normal((3, len(CLASS_COLORS)), np.float32)
        tints *= rng.uniform(0.93, 1.07) * (1 + rng.uniform(-0.03, 0.03) * np.array([[1], [0], [-1]], np.float32))
        photo = self._planes[:3] * (light * levels[self.instances]) * tints[:, labels]
        if is_night:
            photo *= _column(_MOONLIGHT)
            covers = is_sky * (0.85 - 0.4 * y), *self._planes[3:]
            for colour, cover in zip((_NIGHT_SKY, _LAMP, _SNOW), covers, strict=True):
                photo += cover * (_column(colour) - photo)
        photo += 2.5 * rng.standard_normal(photo.shape, np.float32)
        return np.clip(np.rint(photo), 0, 255).astype(np.uint8)


def _column(colour: tuple[float, ...]) -> Floats:
    return np.asarray(colour, np.float32)[:, None, None]


def _smooth_noise(rng: np.random.Generator, shape: tuple[int, ...], rows: int, columns: int) -> Floats:
    """Return (H, W) noise: a grid of `rows` x `columns` normal random numbers, interpolated to the size `shape`."""
    nodes = Image.fromarray(rng.standard_normal((rows, columns), np.float32))
    return np.asarray(nodes.resize((shape[1], shape[0]), Image.Resampling.BICUBIC))


class _Surface:
    """A surface while it is painted. "Cover" means the share (0 to 1) of each pixel that is inside a shape.

    planes: Red, green, blue, share of lamplight and share of snow of each pixel, (5, H, W) float32.
    y, x: Distances of pixels from the upper left corner, in units, (H, 1) and (W,).
    height, width, pixel: Size of the surface, and side of a pixel, in units.
    down, across: `y` divided by `height`, and `x` divided by `width`.
    rows, columns: Functions that return the cover of a horizontal or vertical strip.
    """

    def __init__(self, rng: np.random.Generator, name: str, height: int, width: int, pixel: float) -> None:
        self.rng, self.pixel, self.planes = rng, pixel, np.zeros((5, height, width), np.float32)
        self.planes[:3] = _column(_MATERIALS[name].colour)
        self.y, self.x = (pixel * (np.arange(n, dtype=np.float32) + 0.5) for n in (height, width))
        self.y, self.height, self.width = self.y[:, None], height * pixel, width * pixel
        self.down, self.across = self.y / self.height, self.x / self.width
        self.rows, self.columns = partial(self.strip, self.y), partial(self.strip, self.x)

    def lay(self, colour: Colour, cover: Floats, lamp: float = 0.0) -> None:
        """Blend a colour into the planes. `lamp` is the share of lamplight in this colour at night."""
        self.planes[:4] += cover * (_column((*colour, lamp)) - self.planes[:4])

    def shade(self, factor: Floats) -> None:
        self.planes[:3] *= factor

    def strip(self, places: Floats, start: float, end: float) -> Floats:
        """Return the cover of the strip from `start` to `end`. `places` are the positions of pixels, y or x."""
        half = self.pixel / 2
        return ((np.minimum(places + half, end) - np.maximum(places - half, start)) / self.pixel).clip(0, 1)

    def inner(self, margin: float) -> Floats:
        """Return the cover of the whole surface except a frame of width `margin`."""
        return self.rows(margin, self.height - margin) * self.columns(margin, self.width - margin)

    def bars(self, places: Floats, period: float, thickness: float, offset: float = 0.0) -> Floats:
        """Return the cover of parallel bars that start at offset + k * period, for all integers k."""
        place = (places - offset) % period
        return self.strip(place, 0, thickness) + self.strip(place - period, 0, thickness)

    def lay_courses(self, height: float, length: float, sigma: float, joint: Colour, opacity: float) -> None:
        """Divide the surface into bricks, slabs or leaves of random brightness, with joints between them."""
        row = (self.y // height).astype(np.intp)
        shifted = self.x + np.float32(length / 2) * (row % 2)
        part = (shifted // length).astype(np.intp)
        factors = 1 + sigma * self.rng.standard_normal((int(row.max()) + 1, int(part.max()) + 1), np.float32)
        self.shade(factors[row, part])
        self.lay(joint, opacity * np.maximum(self.bars(shifted, length, 1, -1), self.bars(self.y, height, 1, -1)))


def _paint_shell(surface: _Surface, name: str) -> None:
    """Paint a surface that is not in _OPENINGS, such as a wall, a roof or the sky."""
    y, x, down, height, rows = surface.y, surface.x, surface.down, surface.height, surface.rows
    match name:
        case "sky":
            surface.lay((222, 232, 238), down)
            clouds = _smooth_noise(surface.rng, surface.planes.shape[1:], 10, 5)
            surface.lay((246, 246, 246), (0.5 * clouds - 0.3).clip(0, 0.4))
        case "wall":
            surface.shade(1.14 - 0.3 * (y / COURSE % 1))
            surface.lay_courses(COURSE, 2 * COURSE, 0.05, (208, 192, 170), 0.9)
        case "chimney":
            surface.lay_courses(COURSE, COURSE, 0.05, (208, 192, 170), 0.6)
            surface.shade(1.18 - 0.48 * surface.across)
            surface.lay((120, 112, 104), rows(0, 2.5))
        case "roof":
            surface.shade((1.3 - 0.5 * (y / COURSE % 1)) * (1.12 - 0.22 * down))
            surface.lay_courses(COURSE, COURSE, 0.05, (44, 48, 58), 0.75)
            surface.lay((150, 156, 166), rows(0, 1.5))
        case "cornice":  # stone, with a row of small blocks (dentils) if it is high
            surface.shade(1.14 - 0.28 * down)
            dentils = surface.bars(x, 4, 1.8) * rows(0.45 * height, 0.85 * height)
            surface.lay((122, 110, 92), (0.8 if 2.6 < height < surface.width else 0) * dentils)
            surface.lay((132, 120, 102), 0.8 * rows(height - 0.7, height))
        case "plant":
            surface.shade(1.45 - 0.5 * down - 0.23 * surface.across)
            for size, strength in ((7.3, 0.2), (3.1, 0.16)):  # round clumps of leaves in two sizes
                above, beside = y / size % 1 - 0.35, (x / (1.3 * size) + 0.5 * (y // size % 2)) % 1 - 0.35
                surface.shade(1 + strength * (1 - 4 * above**2 - 4 * beside**2))
            surface.lay_courses(1.6, 1.6, 0.13, _JOINT, 0)
        case "pavement":  # slabs, a kerb and the road
            surface.lay_courses(0.33 * height, 14, 0.02, _JOINT, 0.7)
            surface.lay((216, 212, 204), rows(0.62 * height - 1.2, 0.62 * height))
            surface.lay((92, 88, 84), rows(0.62 * height, 0.62 * height + 1.5))
            surface.lay((98, 98, 102), rows(0.62 * height + 1.5, height))


def _paint_opening(surface: _Surface, name: str) -> None:
    """Paint a window, a door, or an object in front of a window."""
    y, x, down, height, width = surface.y, surface.x, surface.down, surface.height, surface.width
    rows, columns, across = surface.rows, surface.columns, surface.across
    match name:
        case "window":  # a reflected sky above a dark room, a streak of light, the shadow of the wall, and white bars
            surface.lay((38, 50, 66), down, lamp=1)
            surface.lay((206, 222, 232), (0.45 - 2 * abs(down + 0.7 * across - 0.85)).clip(0))
            surface.lay((22, 28, 38), 0.6 * np.maximum(rows(0, 2.2), columns(0, 1.6)))
            surface.planes[3] = 1 - 0.22 * down
            bars = np.maximum(1 - surface.inner(1.5), rows(height / 3 - 0.55, height / 3 + 0.55))
            surface.lay(_WHITE, np.maximum(bars, columns(width / 2 - 0.55, width / 2 + 0.55)))
        case "door":  # two columns of panels below a small window, and a knob
            surface.shade(1.15 - 0.35 * down)
            panel_width, panel_height = (width - 2) / 2, (height - 2) / 4
            for edge, colour, opacity in ((0, (12, 32, 38), 0.65), (0.9, (84, 130, 136), 0.5)):
                panels = surface.bars(x, panel_width, panel_width - 1.2 - edge, 1.6 + edge)
                panels = panels * surface.bars(y - height / 4, panel_height, panel_height - 1.2 - edge, 0.6 + edge)
                surface.lay(colour, opacity * panels)
            surface.lay(_WHITE, rows(0, height / 4))
            surface.lay((80, 104, 126), rows(0, height / 4 - 1), lamp=1)
            surface.lay((20, 46, 52), 0.8 * (1 - surface.inner(1)))
            surface.lay((226, 190, 96), rows(0.6 * height, 0.6 * height + 1.5) * columns(width - 3.4, width - 2))
        case "shutter":
            surface.lay((84, 132, 100), 1 - 0.8 * surface.bars(y, 3, 1.3, 1.7))
            middle = rows(height / 2 - 0.8, height / 2 + 0.8)
            surface.lay((98, 148, 114), np.maximum(1 - surface.inner(1.1), middle))
            surface.shade(1.1 - 0.2 * across)
        case "balcony":  # iron rails in front of a dim window, on a slab of stone
            surface.lay((140, 148, 154), down)
            surface.lay(_IRON, np.maximum(0.9 * surface.bars(x, 3, 1.2), rows(0.4, 1.8)))
            surface.lay((226, 218, 202), rows(height - 3.4, height))
            surface.lay((138, 128, 114), rows(height - 1.2, height))
        case "shop":  # a striped awning over lit panes in a wooden frame
            panes, awning = rows(0.34 * height, 0.84 * height) * columns(1.5, width - 1.5), rows(0, 0.32 * height)
            surface.lay((66, 78, 88), panes, lamp=0.75)
            surface.lay((244, 200, 128), panes * (1.7 * down - 0.6).clip(0, 1), lamp=0.75)
            pane_width = width / max(round(width / 12), 1)
            surface.lay(_MATERIALS["shop"].colour, surface.bars(x, pane_width, 1.2, -0.6))
            surface.lay((104, 80, 62), rows(0.88 * height, 0.95 * height))
            surface.shade(1 - 0.55 * rows(0.32 * height, 0.32 * height + 2.5))
            surface.lay((236, 228, 212), awning)
            surface.lay((178, 50, 48), awning * surface.bars(x, 7, 3.5))
            surface.shade(1 + awning * (0.1 - down))
