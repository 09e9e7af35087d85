"""Layouts `synthetic_facades` and `synthetic_day_night`: random house fronts, drawn when they are read."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch

from data.batch import DataError, Sample
from data.facades.painting import CLASS_COLORS, COURSE, Canvas
from data.folder import SPLITS
from data.layout import Layout, Provenance, RegisteredLayout
from data.unpaired_folders import UnpairedFolders
from utils.label_colors import LabelColors


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
    def _of_split(cls, split: str, samples: Sequence[int], size: Sequence[int], seed: int, **options: Any) -> Self:
        """Return the houses of a split; raise DataError if `split` is not one of SPLITS."""
        if split not in SPLITS:
            raise DataError(f"the synthetic data set has no split {split!r}. Choose one of {', '.join(SPLITS)}")
        n_samples = samples[SPLITS.index(split)]
        return cls(split=split, seed=seed, n_samples=n_samples, height=size[0], width=size[1], **options)

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        return Provenance(f"{type(self).__name__} v4 {self._lights} {self._seed} {self._size} {self._first + index}")

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
        return cls._of_split(split, synthetic_samples, synthetic_size, seed)

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
        settings = split, synthetic_samples, synthetic_size, seed
        lights = "day night" if direction == "AtoB" else "night day"
        if split != "train":
            return cls._of_split(*settings, lights=lights)
        first = {"day": 0, "night": synthetic_samples[0]}
        return UnpairedFolders(*(cls._of_split(*settings, lights=name, first=first[name]) for name in lights.split()))

    def read(self, index: int) -> Sample:
        """Draw sample `index`: uint8 RGB images, (3, H, W)."""
        lights = self._lights.split()
        images = [torch.from_numpy(self._drawn(index).photo(is_night=light == "night")) for light in lights]
        return Sample(name=self.names[index], source=images[0], target=images[1] if images[1:] else None)


class HouseFront:
    """A random house that fits on `canvas`. Its geometry depends only on `rng` and the size of the canvas.

    Lengths are in units of the canvas. All storeys have the same number of courses (rows of bricks) and bays (columns
    of windows). Some houses are as wide as the canvas.

    edges, centres: Positions of the edges and of the centres of all bays, from left to right.
    """

    def __init__(self, rng: np.random.Generator, canvas: Canvas) -> None:
        self.rng, self.canvas, self.add = rng, canvas, canvas.add
        courses = rng.integers(4, 8)
        self.storey_height = courses * COURSE
        self.storeys = max(int(rng.uniform(0.64, 0.82) * canvas.height / self.storey_height), 2)
        self.ground = canvas.height - rng.uniform(9, 15)
        left, right = rng.uniform(0.06, 0.17, 2) * canvas.width if rng.random() < 0.6 else (0.0, 0.0)  # margins
        width = canvas.width - left - right
        bays = max(round(width / rng.uniform(18, 42)), 2)
        self.edges, self.bay_width = np.linspace(left, canvas.width - right, bays + 1), width / bays
        self.centres = self.edges[1:] - self.bay_width / 2
        self.has_shutters = rng.random() < 0.4
        self.window_half = min(self.bay_width * rng.uniform(0.18, 0.21) * (1 if self.has_shutters else 1.4), 10)
        self.window_height = (courses - 2 - (courses > 5 and rng.random() < 0.5)) * COURSE

    def draw(self) -> None:
        """Draw the house and its surroundings on the empty canvas. The ground floor, storey 0, has no balconies."""
        rng, ground, left, right = self.rng, self.ground, self.edges[0], self.edges[-1]
        top = ground - self.storeys * self.storey_height
        self.add("sky", 0, 0, ground, self.canvas.width)
        self.add("pavement", ground, 0, self.canvas.height, self.canvas.width)
        self.add("wall", top, left, ground, right)
        self.draw_roof(top - 4, left, right)
        self.add("cornice", top - 4, left - 2, top, right + 2)
        has_bands, balcony_storey, share = rng.random() < 0.6, rng.integers(self.storeys), rng.choice([0.5, 1.0])
        for storey in range(self.storeys - 1, 0, -1):
            bottom = ground - storey * self.storey_height
            for centre in self.centres:
                self.draw_window(centre, bottom - COURSE)
                if storey == balcony_storey and rng.random() < share:
                    half = min(self.window_half + 3.5, self.bay_width / 2 - 0.5)
                    self.add("balcony", bottom - 13, centre - half, bottom - 2, centre + half)
            if has_bands:
                self.add("cornice", bottom - 4, left, bottom, right)
        self.draw_ground_floor()
        for centre in (left / 2, *self.edges, (right + self.canvas.width) / 2):
            half, height = rng.uniform((4, 9), (9, 19))
            if rng.random() < 0.25:  # a bush with an uneven outline
                widths = np.sqrt(1 - np.linspace(-1, 0.9, 9) ** 2) * rng.uniform(0.8, 1, 9)
                self.add("plant", ground + 1 - height, centre - half, ground + 1, centre + half, outline=tuple(widths))

    def draw_roof(self, bottom: float, left: float, right: float) -> None:
        """Draw a flat roof behind a wall, or a sloping roof with chimneys and perhaps dormers (windows in the roof)."""
        rng, height = self.rng, min(self.rng.uniform(14, 30), bottom - 5)
        if height < 9 or rng.random() < 0.3:
            self.add("wall", bottom - COURSE, left, bottom, right)
            self.add("cornice", bottom - COURSE - 2, left - 1, bottom - COURSE, right + 1)
            return
        top, inset = bottom - height, height * rng.choice([0, 0.2, 0.9]) * (left > 0)
        for x in rng.uniform(left + inset + 5, right - inset - 5, rng.integers(3)):
            self.add("chimney", max(top - 6, 1.5), x - 4, bottom, x + 4)
        self.add("roof", top, left - 2, bottom, right + 2, outline=(1 - 2 * inset / (right - left + 4), 1))
        for x in self.centres if height > 14 and inset < 7 and rng.random() < 0.6 else ():
            self.add("cornice", bottom - 14, x - 6.5, bottom - 10, x + 6.5, outline=(0.2, 1))
            self.add("window", bottom - 10, x - 4.5, bottom - 1, x + 4.5)

    def draw_window(self, centre: float, bottom: float) -> None:
        """Draw a window with a sill, and either shutters or a lintel."""
        half, top = self.window_half, bottom - self.window_height
        self.add("window", top, centre - half, bottom, centre + half)
        for left in (centre - 2.1 * half, centre + half) if self.has_shutters else ():
            self.add("shutter", top, left, bottom, left + 1.1 * half)
        for ledge in (bottom,) if self.has_shutters else (bottom, top - 2):
            self.add("cornice", ledge, centre - half - 1.5, ledge + 2, centre + half + 1.5)

    def draw_ground_floor(self) -> None:
        """Draw a door, and a shop or windows in the other bays."""
        has_shop, door, bottom = self.rng.random() < 0.4, self.rng.choice(self.centres), self.ground
        for centre in self.centres:
            if centre == door:
                top, half = bottom - min(self.storey_height - 5, 26), min(7.0, self.bay_width * 0.3)
                self.add("cornice", top - 2, centre - half - 2, bottom, centre + half + 2)
                self.add("door", top, centre - half, bottom - 1, centre + half)
            elif has_shop:
                half = self.bay_width * 0.46
                self.add("shop", bottom - self.storey_height + 1, centre - half, bottom, centre + half)
            else:
                self.draw_window(centre, bottom - COURSE)
