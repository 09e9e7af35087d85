"""Paint house fronts on a canvas: materials and shadows, by day and on winter nights.

A unit of length is 1/128 of the shorter image side. House fronts therefore look similar at every image size.
"""

from math import inf
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
    colour: RGB colour in images, where no layer covers it.
    is_object: Whether each surface has its own instance id.
    shadow: Height of the shadow below a surface, in units.
    snow: Height of the snow on the upper edge, in units, and share of snow (0 to 1) on the rest of the surface.
    """

    label_color: tuple[int, int, int]
    colour: Colour
    is_object: bool = False
    shadow: float = 0
    snow: tuple[float, float] = (0, 0)


class _Layer(NamedTuple):
    """A grid of equal cells on all surfaces of a class, such as bricks or panes. The gaps between them stay unchanged.

    name: Class of the surfaces.
    upper, lower: RGB colours of a cell at its upper and lower edge, with a gradient between them.
    rows: Where the grid begins and ends, in units below the upper edge, or above the lower edge if negative.
    heights, widths: Size of a cell with its gap, and size of the gap, in units. The cell size is rounded so that cells
        fill the grid. A cell size below 1 is a share of the grid.
    masonry: Standard deviation of the brightness of cells. If it is not 0, every second row is shifted by half a cell.
    lamp: Share of lamplight in the colour at night, 0 to 1.
    """

    name: str
    upper: Colour
    lower: Colour
    rows: tuple[float, float] = (0, inf)
    heights: tuple[float, float] = (inf, 0)
    widths: tuple[float, float] = (inf, 0)
    masonry: float = 0
    lamp: float = 0


_MATERIALS = {
    "sky": _Material((135, 206, 250), (98, 154, 214)),
    "wall": _Material((200, 85, 60), (206, 186, 162), shadow=4),
    "roof": _Material((90, 70, 140), (58, 63, 75), snow=(4, 0.72)),
    "window": _Material((30, 80, 200), (238, 234, 226), is_object=True),
    "door": _Material((0, 150, 136), (35, 77, 85), is_object=True),
    "shutter": _Material((150, 215, 90), (90, 140, 106), is_object=True),
    "balcony": _Material((70, 70, 70), (34, 36, 42), is_object=True, shadow=5, snow=(2.5, 0)),
    "cornice": _Material((250, 205, 60), (216, 204, 182), shadow=5, snow=(2, 0)),
    "shop": _Material((235, 60, 160), (66, 48, 38), is_object=True, snow=(3.5, 0)),
    "chimney": _Material((120, 60, 30), (206, 186, 162), is_object=True, snow=(3, 0)),
    "plant": _Material((25, 130, 50), (52, 84, 36), is_object=True, snow=(5, 0.3)),
    "pavement": _Material((185, 185, 185), (214, 209, 200), snow=(2, 0.7)),
}
_LAYERS = (  # later layers cover earlier layers
    _Layer("sky", (98, 154, 214), (222, 232, 238)),
    _Layer("wall", (196, 105, 78), (146, 78, 58), heights=(COURSE, 1), widths=(2 * COURSE, 1), masonry=0.05),
    _Layer("roof", (134, 147, 171), (80, 88, 103), heights=(COURSE, 1), widths=(COURSE, 1), masonry=0.07),
    _Layer("window", (150, 184, 210), (40, 54, 72), heights=(8, 1.3), widths=(0.5, 1.3), lamp=0.9),
    _Layer("door", (16, 42, 48), (84, 130, 136), rows=(7, inf), heights=(6, 1.2), widths=(0.5, 1.2)),
    _Layer("door", (80, 104, 126), (120, 144, 160), rows=(0, 6.5), heights=(inf, 1), widths=(inf, 1), lamp=1),
    _Layer("shutter", (76, 124, 92), (30, 58, 44), rows=(1, -1), heights=(3, 0), widths=(inf, 1)),
    _Layer("balcony", (102, 108, 113), (140, 148, 154), rows=(0, -2), heights=(inf, 1.6), widths=(3, 1.2)),
    _Layer("balcony", (236, 228, 212), (150, 140, 126), rows=(-3.4, inf)),
    _Layer("cornice", (246, 232, 207), (186, 175, 157)),
    _Layer("cornice", (140, 128, 110), (150, 138, 120), rows=(1.8, 3.4), widths=(4, 2.2)),
    _Layer("shop", (50, 56, 62), (226, 186, 122), rows=(10, -5), widths=(12, 1.2), lamp=0.75),
    _Layer("shop", (252, 244, 228), (200, 192, 178), rows=(0, 10)),
    _Layer("shop", (196, 55, 53), (150, 42, 40), rows=(0, 10), widths=(7, 3.5)),
    _Layer("chimney", (158, 99, 83), (104, 66, 54), heights=(COURSE, 1), widths=(COURSE, 1), masonry=0.05),
    _Layer("plant", (104, 150, 72), (50, 80, 36), heights=(3, 0.6), widths=(3.5, 0.6), masonry=0.15),
    _Layer("pavement", (188, 180, 168), (182, 174, 162), (0, -5), heights=(4, 1), widths=(14, 1), masonry=0.02),
    _Layer("pavement", (88, 85, 82), (102, 102, 106), rows=(-4, inf)),
)
CLASS_COLORS = {name: material.label_color for name, material in _MATERIALS.items()}
"""RGB colour of each class in label maps, in the order of the class ids."""

_IDS = {name: number for number, name in enumerate(_MATERIALS)}
_CLOUD, _MOONLIGHT = (246, 246, 246), (0.34, 0.37, 0.52)
_NIGHT_SKY, _LAMP, _SNOW = (12, 16, 44), (255, 208, 118), (178, 192, 222)


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

    def add(self, name: str, *box: float, outline: tuple[float, ...] = (1, 1)) -> None:
        """Paint a surface on the box (top, left, bottom, right), in units.

        outline: Widths of the surface at equal distances from top to bottom, divided by the width of the box.
        """
        top, left, bottom, right = np.rint(np.multiply(box, self._unit)).clip(0, self.labels.shape * 2).astype(int)
        if top >= bottom or left >= right:
            return
        material, key = _MATERIALS[name], (name, bottom - top, right - left)
        self._cast_shadow(min(round(material.shadow * self._unit), bottom - top), left, bottom, right)
        if key not in self._painted:  # surfaces of equal class and size look the same
            self._painted[key] = _paint(self._rng, *key, 1 / self._unit)
        mask: NDArray[np.bool_] = np.array(True)
        if min(outline) < 1:
            y, x = (np.arange(top, bottom) + 0.5) / self._unit, (np.arange(left, right) + 0.5) / self._unit
            widths = (box[3] - box[1]) * np.interp(y, np.linspace(box[0], box[2], len(outline)), outline)
            mask = abs(2 * x - box[1] - box[3]) < widths[:, None]
        instance = self._n_instances if material.is_object else _IDS[name]
        self._n_instances += material.is_object
        for plane, value in ((self._planes, self._painted[key]), (self.labels, _IDS[name]), (self.instances, instance)):
            np.copyto(plane[..., top:bottom, left:right], value, where=mask)

    def _cast_shadow(self, reach: int, left: int, bottom: int, right: int) -> None:
        """Darken `reach` rows of pixels below a box, but not the sky. The light comes from the upper left."""
        area = np.s_[bottom : bottom + reach, left + round(0.3 * reach) : right + round(0.3 * reach)]
        is_sky = self.labels[area] == _IDS["sky"]
        self._planes[:3, *area] *= np.where(is_sky, 1, np.linspace(0.5, 0.95, len(is_sky))[:, None])

    def photo(self, *, is_night: bool = False) -> NDArray[np.uint8]:
        """Return the image with random light, stains, clouds and noise, (3, H, W) uint8 RGB."""
        rng, labels, shape = self._rng, self.labels, self.labels.shape
        is_sky = labels == _IDS["sky"]
        light = 1.05 + 0.03 * rng.standard_normal(self._n_instances, np.float32)[self.instances]
        light += np.where(is_sky, 0, 0.045 * _smooth_noise(rng, shape, 4, 14).clip(-1.5, 1))
        tints = rng.uniform(0.93, 1.07) + 0.025 * rng.standard_normal((3, len(CLASS_COLORS)), np.float32)
        photo = self._planes[:3] * light * tints[:, labels]
        covers = [(_CLOUD, is_sky * (0.5 * _smooth_noise(rng, shape, 10, 5) - 0.3).clip(0, 0.4))]
        if is_night:
            photo *= _column(_MOONLIGHT)
            covers = [(_NIGHT_SKY, 0.7 * is_sky), (_LAMP, self._planes[3]), (_SNOW, self._planes[4])]
        for colour, cover in covers:
            photo += cover * (_column(colour) - photo)
        return np.rint(photo + 2.5 * rng.standard_normal(photo.shape, np.float32)).clip(0, 255).astype(np.uint8)


def _column(colour: Colour) -> Floats:
    return np.asarray(colour, np.float32)[:, None, None]


def _smooth_noise(rng: np.random.Generator, shape: tuple[int, ...], rows: int, columns: int) -> Floats:
    """Return (H, W) noise: a grid of `rows` x `columns` normal random numbers, interpolated to the size `shape`."""
    nodes = Image.fromarray(rng.standard_normal((rows, columns), np.float32))
    return np.asarray(nodes.resize((shape[1], shape[0]), Image.Resampling.BICUBIC))


def _paint(rng: np.random.Generator, name: str, height: int, width: int, pixel: float) -> Floats:
    """Return the planes of a surface, (5, height, width) float32. `pixel` is the side of a pixel in units."""
    planes = np.zeros((5, height, width), np.float32)
    planes[:3] = _column(_MATERIALS[name].colour)
    y, x = (pixel * np.arange(n + 1, dtype=np.float32) for n in (height, width))
    for layer in (layer for layer in _LAYERS if layer.name == name):
        start, end = (min(place + y[-1] * (place < 0), y[-1]) for place in layer.rows)
        shifts = np.array([[0], [0.5 if layer.masonry else 0]], np.float32)  # even rows, odd rows
        down, row, cover_y = _cells(y.clip(start, end) - start, *layer.heights, shifts[0])
        _, column, cover_x = _cells(x, *layer.widths, shifts)
        cover = cover_y[:, None] * cover_x[row % 2] / pixel**2
        brightness = 1 + layer.masonry * rng.standard_normal((row.max() + 1, column.max() + 1), np.float32)
        colour = _column(layer.upper) + down[:, None] * (_column(layer.lower) - _column(layer.upper))
        planes[:3] += cover * (colour * brightness[row[:, None], column[row % 2]] - planes[:3])
        planes[3] += cover * (layer.lamp - planes[3])
    snow, snow_below = _MATERIALS[name].snow
    planes[4] = (np.diff(y.clip(0, snow))[:, None] / pixel).clip(snow_below)
    return planes


def _cells(edges: Floats, size: float, gap: float, shifts: Floats) -> tuple[Floats, NDArray[np.intp], Floats]:
    """Divide one side of a grid into cells. See _Layer for `size` and `gap`.

    edges: Positions of the edges of pixels, (P + 1,). The grid ends at the last edge.
    shifts: How far the cells are shifted, divided by their size, broadcast with `edges`.
    Return for each pixel: position in its cell (0 to 1), number of this cell, and length that cells cover.
    """
    length = max(edges[-1] - gap, 1e-3)
    period = length / max(round(1 / size if size < 1 else length / size), 1)
    filled = max(period - gap, 0)
    number, place = np.divmod(edges - gap + period * shifts, period)
    cover = np.diff(number * filled + np.minimum(place, filled))
    return place[..., :-1] / period, number[..., :-1].clip(0).astype(np.intp), cover
