"""Layouts `synthetic_facades` and `synthetic_day_night`: random house fronts, drawn when they are read."""

from collections.abc import Sequence
from functools import partial
from typing import Self

import numpy as np
import torch

from data.batch import DataError, Sample
from data.facades.painting import CLASS_COLORS, COURSE, Canvas
from data.folder import SPLITS
from data.layout import Layout, Provenance, RegisteredLayout
from data.unpaired_folders import UnpairedFolders
from utils.label_colors import LabelColors

_BAY_WIDTHS = (19.0, 44.0)  # minimum and maximum width of a bay, a column of windows
_STOREY_COURSES = (4, 5, 6, 7)  # possible heights of a storey in courses (rows of bricks)
_WALL_SHARES = (0.5, 0.76)  # minimum and maximum height of the wall divided by the image height
_ROOF_SHARES = {"flat": 0.2, "hip": 0.3, "mansard": 0.3, "gable": 0.2}  # probability of each roof


class _DrawnHouses(RegisteredLayout):
    """Images of random house fronts. An image depends only on the seed, the split, the house number and the size.

    split: One of SPLITS. No house is in two splits.
    height, width: Size of the images in pixels, at least 32.
    first: Number of the first house.
    lights: Light in each image of a sample: "day", "night", "day night" or "night day".
    """

    drawn = True
    unsupported = ("generator.scale",)

    def __init__(
        self, *, split: str, seed: int, n_samples: int, height: int, width: int, first: int = 0, lights: str = "day"
    ) -> None:
        self._seed, self._size = (seed, SPLITS.index(split)), (height, width)
        self._first, self._lights = first, lights
        self.names = tuple(f"facade_{number:05d}" for number in range(first, first + n_samples))

    @classmethod
    def has_split(cls, split: str) -> bool:
        """Return whether `split` is one of SPLITS."""
        return split in SPLITS

    @classmethod
    def _of_split(cls, split: str, samples: Sequence[int], size: Sequence[int], seed: int) -> partial[Self]:
        """Return a constructor for the houses of a split; raise DataError if `split` is not one of SPLITS."""
        if split not in SPLITS:
            raise DataError(f"the synthetic data set has no split {split!r}. Choose one of {', '.join(SPLITS)}")
        n_samples = samples[SPLITS.index(split)]
        return partial(cls, split=split, seed=seed, n_samples=n_samples, height=size[0], width=size[1])

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        number = self._first + index
        return Provenance(f"{type(self).__name__} v3 {self._lights} {self._seed} {self._size} 1 {number}")

    def _drawn(self, index: int) -> Canvas:
        # two streams, so that drawing the appearance does not change the random numbers of the geometry
        geometry_rng, appearance_rng = np.random.default_rng([*self._seed, self._first + index]).spawn(2)
        canvas = Canvas(appearance_rng, *self._size)
        HouseFront(geometry_rng, canvas).draw()
        return canvas


class SyntheticFacades(_DrawnHouses):
    """Pairs of a label map and a photo of a house front."""

    n_classes = len(CLASS_COLORS)
    own_classes = LabelColors("synthetic_facades", tuple(CLASS_COLORS), tuple(CLASS_COLORS.values()))

    @classmethod
    def open(cls, split: str, *, synthetic_samples: Sequence[int], synthetic_size: Sequence[int], seed: int) -> Self:
        """Return a split of the data set. See RegisteredLayout."""
        return cls._of_split(split, synthetic_samples, synthetic_size, seed)()

    def read(self, index: int) -> Sample:
        """Draw sample `index`: class ids, (1, H, W) uint8; instances, (1, H, W) int32; target, (3, H, W) uint8 RGB."""
        canvas = self._drawn(index)
        photo, labels, instances = map(torch.from_numpy, (canvas.photo(), canvas.labels, canvas.instances))
        return Sample(name=self.names[index], source=labels[None], instances=instances[None], target=photo)


class SyntheticDayNight(_DrawnHouses):
    """House fronts by day (one domain) and on winter nights (the other domain).

    In the train split, no house is in both domains. In the other splits, a sample shows one house by day and by night.
    Metrics can therefore compare a translation with the true image.
    """

    pairs = False

    @classmethod
    def open(
        cls, split: str, *, synthetic_samples: Sequence[int], synthetic_size: Sequence[int], seed: int, direction: str
    ) -> Layout:
        """Return a split of the data set. Each domain has `synthetic_samples` samples. See RegisteredLayout."""
        houses = cls._of_split(split, synthetic_samples, synthetic_size, seed)
        lights = "day night" if direction == "AtoB" else "night day"
        if split != "train":
            return houses(lights=lights)
        first = {"day": 0, "night": synthetic_samples[0]}
        return UnpairedFolders(*(houses(lights=light, first=first[light]) for light in lights.split()))

    def read(self, index: int) -> Sample:
        """Draw sample `index`: uint8 RGB images, (3, H, W)."""
        lights = self._lights.split()
        images = [torch.from_numpy(self._drawn(index).photo(is_night=light == "night")) for light in lights]
        return Sample(name=self.names[index], source=images[0], target=images[1] if images[1:] else None)


class HouseFront:
    """A random house that fits on `canvas`. Its geometry depends only on `rng` and the size of the canvas.

    Lengths are in units of the canvas. All storeys have the same number of courses (rows of bricks) and bays (columns
    of windows). A terraced house is as wide as the canvas.

    balcony_storey: Storey with balconies, or 0 if the house has no balconies.
    """

    def __init__(self, rng: np.random.Generator, canvas: Canvas) -> None:
        self.rng, self.canvas, self.add = rng, canvas, canvas.add
        self.ground = canvas.height - rng.uniform(9, 15)
        low, high = (share * canvas.height / COURSE for share in _WALL_SHARES)
        sizes = [(n, courses) for n in range(2, int(high)) for courses in _STOREY_COURSES if low <= n * courses <= high]
        self.storeys, self.courses = sizes[rng.integers(len(sizes))]
        self.storey_height = self.courses * COURSE
        self.top = self.ground - self.storeys * self.storey_height
        self.is_terraced = rng.random() < 0.4
        margins = np.zeros(2) if self.is_terraced else rng.uniform(0.06, 0.17, 2) * canvas.width
        self.left, self.right = float(margins[0]), float(canvas.width - margins[1])
        self.middle, self.half = (self.left + self.right) / 2, (self.right - self.left) / 2
        fewest = max(2, int(2 * self.half / _BAY_WIDTHS[1]) + 1)
        self.bays = int(rng.integers(fewest, max(fewest, int(2 * self.half / _BAY_WIDTHS[0])) + 1))
        self.bay_width = 2 * self.half / self.bays
        self.centres = [self.left + (bay + 0.5) * self.bay_width for bay in range(self.bays)]
        self.has_shutters = rng.random() < 0.4
        window_share = rng.uniform(0.36, 0.42) if self.has_shutters else rng.uniform(0.44, 0.6)
        self.window_half = min(self.bay_width * window_share, 20) / 2
        self.window_height = (self.courses - 2 - (self.courses > 5 and rng.random() < 0.5)) * COURSE
        self.has_bands, self.has_shop = rng.random() < 0.6, rng.random() < 0.4
        self.door_bay = rng.integers(self.bays)
        self.balcony_storey = rng.integers(1, self.storeys) if rng.random() < 0.65 else 0
        self.has_balcony = rng.random(self.bays) < rng.choice([0.5, 1.0])

    def draw(self) -> None:
        """Draw the house and its surroundings on the empty canvas."""
        self.add("sky", 0, 0, self.ground, self.canvas.width)
        self.add("pavement", self.ground, 0, self.canvas.height, self.canvas.width)
        self.add("wall", self.top, self.left, self.ground, self.right)
        self.draw_roof(self.top - 4)
        self.add("cornice", self.top - 4, self.left - 2, self.top, self.right + 2)
        for storey in reversed(range(self.storeys)):
            bottom = self.ground - storey * self.storey_height
            for bay, centre in enumerate(self.centres):
                if storey == 0 and bay == self.door_bay:
                    top, half = bottom - min(self.storey_height - 5, 26), min(7.0, self.bay_width * 0.3)
                    self.add("cornice", top - 2, centre - half - 2, bottom, centre + half + 2)
                    self.add("door", top, centre - half, bottom - 1, centre + half)
                elif storey == 0 and self.has_shop:
                    half = self.bay_width * 0.46
                    self.add("shop", bottom - self.storey_height + 1, centre - half, bottom, centre + half)
                else:
                    has_balcony = bool(0 < storey == self.balcony_storey and self.has_balcony[bay])
                    self.draw_window(centre, bottom - COURSE, has_balcony=has_balcony)
            if storey and self.has_bands:
                self.add("cornice", bottom - 4, self.left, bottom, self.right)
        self.draw_plants()

    def draw_trapezoid(self, name: str, top: float, bottom: float, middle: float, upper: float, lower: float) -> None:
        """Draw a trapezoid around the axis x = `middle`. `upper` and `lower` are half its width at top and bottom."""
        slope, reach = (lower - upper) / (bottom - top), max(upper, lower)
        left, right = middle - reach, middle + reach
        self.add(name, top, left, bottom, right, inside=lambda y, x: abs(x - middle) < upper + (y - top) * slope)

    def draw_roof(self, bottom: float) -> None:
        """Draw a roof of a random shape, or a flat roof if there is not enough space for this shape."""
        rng, half, middle = self.rng, self.half, self.middle
        height = min(rng.uniform(14, 30), bottom - 5)
        shape = rng.choice(list(_ROOF_SHARES), p=list(_ROOF_SHARES.values()))
        top = bottom - height
        if shape == "flat" or height < 9 or (shape == "gable" and 2 * half > 7 * height):
            self.add("wall", bottom - COURSE, self.left, bottom, self.right)
            self.add("cornice", bottom - COURSE - 2, self.left - 1, bottom - COURSE, self.right + 1)
        elif shape == "gable":
            chimney = middle + rng.choice([-0.6, 0.6]) * half
            self.add("chimney", max(top - 6, 1.5), chimney - 4, bottom, chimney + 4)
            self.draw_trapezoid("roof", top, self.top, middle, 0, half + 2)
            wall = self.top - top - COURSE
            self.draw_trapezoid("wall", top + COURSE, self.top, middle, 0, half * wall / (wall + COURSE))
            if wall > 16:
                self.add("window", self.top - COURSE - 7, middle - 3.5, self.top - COURSE, middle + 3.5)
        else:
            ridge = half - (0.0 if self.is_terraced else height * (0.9 if shape == "hip" else 0.2))
            self.draw_trapezoid("roof", top, bottom, middle, ridge, half + 2)
            reach = min(5.0, self.bay_width * 0.25)
            for centre in self.centres if shape == "mansard" and height > 14 else []:
                self.draw_trapezoid("cornice", bottom - 14, bottom - 10, centre, 1, reach + 2)
                self.add("window", bottom - 10, centre - reach, bottom - 1, centre + reach)
            for chimney in rng.uniform(middle - ridge + 5, middle + ridge - 5, rng.integers(0, 3)):
                self.add("chimney", max(top - 6, 1.5), chimney - 4, top + 3, chimney + 4)

    def draw_window(self, centre: float, bottom: float, *, has_balcony: bool) -> None:
        """Draw a window with a sill, either shutters or a lintel, and a balcony if `has_balcony`."""
        half, top = self.window_half, bottom - self.window_height
        self.add("window", top, centre - half, bottom, centre + half)
        for left in (centre - 2.1 * half, centre + half) if self.has_shutters else ():
            self.add("shutter", top, left, bottom, left + 1.1 * half)
        for ledge in (bottom,) if self.has_shutters else (bottom, top - 2):
            self.add("cornice", ledge, centre - half - 1.5, ledge + 2, centre + half + 1.5)
        if has_balcony:
            reach = min(half + 3.5, self.bay_width / 2 - 0.5)
            self.add("balcony", bottom + COURSE - 13, centre - reach, bottom + COURSE - 2, centre + reach)

    def draw_plants(self) -> None:
        """Draw bushes next to a free-standing house, and small bushes in front of some bays."""
        rng, ground = self.rng, self.ground
        for left, right in [] if self.is_terraced else [(0.0, self.left), (self.right, self.canvas.width)]:
            if rng.random() < 0.7:
                radius = (right - left) * rng.uniform(0.35, 0.5)
                rows = ground - radius * np.array([0.7, *rng.uniform(0.6, 1.6, 3)])
                columns = np.array([(left + right) / 2, *rng.uniform(left + radius * 0.6, right - radius * 0.6, 3)])
                self.draw_bush(rows, columns, radius, radius)
        for bay in np.flatnonzero(rng.random(self.bays) < 0.15):
            radius, edge = rng.uniform(3.5, 5.5), self.left + bay * self.bay_width
            rows = ground + 1 - radius * np.array([2.2, 1.0])
            self.draw_bush(rows, np.array([edge, edge]), radius * 1.2, radius)

    def draw_bush(self, rows: np.ndarray, columns: np.ndarray, height: float, width: float) -> None:
        """Draw a plant as several ellipses with centres (`rows`, `columns`) and half axes `height` and `width`."""
        box = rows.min() - height, columns.min() - width, rows.max() + height, columns.max() + width

        def inside(y: np.ndarray, x: np.ndarray) -> np.ndarray:
            return (((y[..., None] - rows) / height) ** 2 + ((x[:, None] - columns) / width) ** 2 <= 1).any(-1)

        self.add("plant", *box, inside=inside)
