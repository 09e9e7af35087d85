"""Layouts `synthetic_facades` and `synthetic_day_night`: procedural house fronts, drawn when they are read."""

from functools import partial
from typing import ClassVar, Self

import numpy as np
import torch

from data.batch import DataError, Sample
from data.facades.house_front import CLASS_COLORS, HouseFront, draw_house_front
from data.facades.painting import paint, paint_winter_night
from data.folder_store import SPLITS
from data.layout import Layout, Provenance, RegisteredLayout
from data.preprocessing import resize_image
from data.unpaired_folders import UnpairedFolders
from utils.label_colors import LabelColors

_PAINTERS = {"day": paint, "night": paint_winter_night}


class _DrawnHouses(RegisteredLayout):
    """House fronts, each a function of (seed, split, number) and the size alone; nothing is downloaded or stored.

    split: one of SPLITS; the splits have no house in common.
    seed: another seed gives other houses; not negative.
    numbers: of the houses.
    height, width: size of the images in pixels, at least 32.
    """

    drawn = True

    def __init__(self, *, split: str, seed: int, numbers: range, height: int, width: int) -> None:
        self._seed = (seed, SPLITS.index(split))
        self._numbers = numbers
        self._size = (height, width)
        self.names = tuple(f"facade_{number:05d}" for number in numbers)

    @classmethod
    def has_split(cls, split: str) -> bool:
        """Return whether `split` is one of SPLITS."""
        return split in SPLITS

    def _drawn(self, index: int, step: int = 1) -> tuple[HouseFront, np.random.Generator]:
        """Return house `index` at `step` times the size, and the random generator of its appearance."""
        # separate streams: the geometry does not depend on what the appearance draws
        geometry_rng, appearance_rng = np.random.default_rng([*self._seed, self._numbers[index]]).spawn(2)
        height, width = (step * side for side in self._size)
        return draw_house_front(geometry_rng, height, width), appearance_rng


def _samples_of(split: str, *counts: int, layout: str) -> int:
    """Return the number of samples of a split, given those of all splits; raise DataError where there is no such."""
    if split not in SPLITS:
        raise DataError(f"{layout} has no split {split!r}, only {', '.join(SPLITS)}")
    return counts[SPLITS.index(split)]


class SyntheticFacades(_DrawnHouses):
    """Label maps and photos of house fronts.

    n_samples: number of samples in this split.
    target_scale: sides of a photo, in those of its label map, a power of 2; for less than 1 it must be a whole number
        of pixels.
    """

    n_classes = len(CLASS_COLORS)
    own_classes: ClassVar[LabelColors | None] = LabelColors(
        "synthetic_facades", tuple(CLASS_COLORS), tuple(CLASS_COLORS.values())
    )

    def __init__(
        self, *, split: str, seed: int, n_samples: int, height: int, width: int, target_scale: float = 1.0
    ) -> None:
        super().__init__(split=split, seed=seed, numbers=range(n_samples), height=height, width=width)
        self._scale = target_scale

    @classmethod
    def open(
        cls,
        split: str,
        *,
        train_samples: int,
        val_samples: int,
        test_samples: int,
        height: int,
        width: int,
        seed: int,
        target_scale: float = 1.0,
    ) -> Self:
        """Return a split of the data set. See RegisteredLayout."""
        n_samples = _samples_of(split, train_samples, val_samples, test_samples, layout="synthetic_facades")
        if height * target_scale % 1 or width * target_scale % 1:
            raise DataError(
                f"data.synthetic.width x height is {width}x{height}, expected multiples of {1 / target_scale:g} with "
                f"generator.scale={target_scale:g}"
            )
        return cls(split=split, seed=seed, n_samples=n_samples, height=height, width=width, target_scale=target_scale)

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        scale = "" if self._scale == 1 else f" {self._scale:g}"
        return Provenance(f"synthetic_facades v2 {self._seed} {self._size} {index}{scale}")

    def read(self, index: int) -> Sample:
        """Draw sample `index`.

        Its source is (1, H, W) uint8 class ids, its instances (1, H, W) int32, its target uint8 RGB, (3, H, W) at a
        scale of 1. Of a source and a target, the larger one is drawn; the other is made of it.
        """
        step = max(1, round(self._scale))  # pixels of the drawing in each direction, of which the source has one
        front, appearance_rng = self._drawn(index, step)
        target = torch.from_numpy(paint(appearance_rng, front))
        if self._scale < 1:
            target = resize_image(target, *(int(side * self._scale) for side in self._size))
        places = slice(step // 2, None, step)
        source, instances = (
            torch.from_numpy(ids[None, places, places]).contiguous() for ids in (front.labels, front.instances)
        )
        return Sample(name=self.names[index], source=source, instances=instances, target=target)


class SyntheticDayNight(_DrawnHouses):
    """The house fronts of SyntheticFacades in one light or two: by day, and on winter nights.

    For training, the sides are without pairs: no house is on both. In the other splits a sample is one house in both
    lights, so that metrics measure what the training cannot see.

    lights: "day" or "night" of the source and, where there is one, of the target.
    """

    pairs = False

    def __init__(
        self, lights: tuple[str, ...], *, split: str, seed: int, numbers: range, height: int, width: int
    ) -> None:
        super().__init__(split=split, seed=seed, numbers=numbers, height=height, width=width)
        self._lights = lights

    @classmethod
    def open(
        cls,
        split: str,
        *,
        train_samples: int,
        val_samples: int,
        test_samples: int,
        height: int,
        width: int,
        seed: int,
        direction: str,
    ) -> Layout:
        """Return a split of the data set; the numbers of samples are those of each side. See RegisteredLayout."""
        n_samples = _samples_of(split, train_samples, val_samples, test_samples, layout="synthetic_day_night")
        lights = ("day", "night") if direction == "AtoB" else ("night", "day")
        houses = partial(cls, split=split, seed=seed, height=height, width=width)
        numbers = {"day": range(n_samples), "night": range(n_samples, 2 * n_samples)}
        if split != "train":
            return houses(lights, numbers=numbers["day"])
        return UnpairedFolders(*(houses((light,), numbers=numbers[light]) for light in lights))

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        lights = " ".join(self._lights)
        return Provenance(f"synthetic_day_night v1 {lights} {self._seed} {self._size} {self._numbers[index]}")

    def read(self, index: int) -> Sample:
        """Draw sample `index`: uint8 RGB images, (3, H, W)."""
        source, *targets = (torch.from_numpy(_PAINTERS[light](*self._drawn(index)[::-1])) for light in self._lights)
        return Sample(name=self.names[index], source=source, target=targets[0] if targets else None)
