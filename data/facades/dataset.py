"""Layouts `synthetic_facades` and `synthetic_day_night`: procedural house fronts, drawn when they are read."""

from collections.abc import Sequence
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
    """House fronts. Each is a function of (seed, split, number) and the size; nothing is downloaded or stored.

    split: One of SPLITS; no house is in two splits.
    numbers: Numbers of the houses.
    height, width: Size of the images in pixels, at least 32.
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


def _houses(split: str, counts: Sequence[int]) -> range:
    """Return the numbers of the houses of a split, given the sizes of all splits; raise DataError for other splits."""
    if split not in SPLITS:
        raise DataError(f"drawn data sets have no split {split!r}, only {', '.join(SPLITS)}")
    return range(counts[SPLITS.index(split)])


class SyntheticFacades(_DrawnHouses):
    """Label maps and photos of house fronts.

    n_samples: Number of samples in this split.
    target_scale: Height of a photo divided by the height of its label map, a power of 2.
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
        synthetic_samples: Sequence[int],
        synthetic_size: Sequence[int],
        seed: int,
        target_scale: float = 1.0,
    ) -> Self:
        """Return a split of the data set. See RegisteredLayout."""
        n_samples, (height, width) = len(_houses(split, synthetic_samples)), synthetic_size
        if height * target_scale % 1 or width * target_scale % 1:
            raise DataError(
                f"data.synthetic_size is [{height},{width}], expected multiples of {1 / target_scale:g} with "
                f"generator.scale={target_scale:g}"
            )
        return cls(split=split, seed=seed, n_samples=n_samples, height=height, width=width, target_scale=target_scale)

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        scale = "" if self._scale == 1 else f" {self._scale:g}"
        return Provenance(f"synthetic_facades v2 {self._seed} {self._size} {index}{scale}")

    def read(self, index: int) -> Sample:
        """Draw sample `index` at the larger size of source and target; reduce the smaller one from it.

        Source: (1, H, W) uint8 class ids. Instances: (1, H, W) int32. Target: (3, scale * H, scale * W) uint8 RGB.
        """
        step = max(1, round(self._scale))
        front, appearance_rng = self._drawn(index, step)
        target = torch.from_numpy(paint(appearance_rng, front))
        if self._scale < 1:
            target = resize_image(target, *(int(side * self._scale) for side in self._size))
        every = slice(step // 2, None, step)
        ids = (torch.from_numpy(ids[None, every, every]).contiguous() for ids in (front.labels, front.instances))
        source, instances = ids
        return Sample(name=self.names[index], source=source, instances=instances, target=target)


class SyntheticDayNight(_DrawnHouses):
    """The house fronts of SyntheticFacades by day and on winter nights.

    The train split has two domains without pairs: no house is in both. In the other splits a sample is one house in
    both lights, so that metrics measure what the training cannot see.

    lights: "day" or "night", for the source and, if there is one, the target.
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
        synthetic_samples: Sequence[int],
        synthetic_size: Sequence[int],
        seed: int,
        direction: str,
    ) -> Layout:
        """Return a split of the data set with this many samples in each domain. See RegisteredLayout."""
        numbers, (height, width) = _houses(split, synthetic_samples), synthetic_size
        lights = ("day", "night") if direction == "AtoB" else ("night", "day")
        if split != "train":
            return cls(lights, split=split, seed=seed, numbers=numbers, height=height, width=width)
        of_light = {"day": numbers, "night": range(len(numbers), 2 * len(numbers))}
        domains = [
            cls((light,), split=split, seed=seed, numbers=of_light[light], height=height, width=width)
            for light in lights
        ]
        return UnpairedFolders(*domains)

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        lights = " ".join(self._lights)
        return Provenance(f"synthetic_day_night v1 {lights} {self._seed} {self._size} {self._numbers[index]}")

    def read(self, index: int) -> Sample:
        """Draw sample `index`: uint8 RGB images, (3, H, W)."""
        source, *targets = (torch.from_numpy(_PAINTERS[light](*self._drawn(index)[::-1])) for light in self._lights)
        return Sample(name=self.names[index], source=source, target=targets[0] if targets else None)
