"""Layouts `synthetic_facades` and `synthetic_day_night`: procedural house fronts, drawn when they are read."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Self

import numpy as np
import torch

from data.batch import DataError, Sample
from data.facades.house_front import HouseFront
from data.facades.painting import CLASS_COLORS, Canvas
from data.folder import SPLITS
from data.layout import Layout, Provenance, RegisteredLayout
from data.preprocessing import resize_image
from data.unpaired_folders import UnpairedFolders
from utils.label_colors import LabelColors


class _DrawnHouses(RegisteredLayout):
    """House fronts. Each is a function of (seed, split, number) and the size; nothing is downloaded or stored.

    split: One of SPLITS; no house is in two splits.
    height, width: Size of the images in pixels, at least 32.
    target_scale: Height of a photo divided by the height of its label map, a power of 2.
    first: Number of the first house. lights: "day" or "night" for each image.
    """

    drawn = True

    def __init__(
        self,
        *,
        split: str,
        seed: int,
        n_samples: int,
        height: int,
        width: int,
        target_scale: float = 1.0,
        first: int = 0,
        lights: tuple[str, ...] = ("day",),
    ) -> None:
        self._seed, self._size = (seed, SPLITS.index(split)), (height, width)
        self._first, self._scale, self._lights = first, target_scale, lights
        self.names = tuple(f"facade_{number:05d}" for number in range(first, first + n_samples))

    @classmethod
    def has_split(cls, split: str) -> bool:
        """Return whether `split` is one of SPLITS."""
        return split in SPLITS

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        size, lights = f"{self._size} {self._scale:g}", " ".join(self._lights)
        return Provenance(f"{type(self).__name__} v3 {lights} {self._seed} {size} {self._first + index}")

    def _drawn(self, index: int, step: int = 1) -> Canvas:
        """Return house `index` at `step` times the size."""
        # separate streams: the geometry does not depend on the random numbers of the appearance
        geometry_rng, appearance_rng = np.random.default_rng([*self._seed, self._first + index]).spawn(2)
        canvas = Canvas(appearance_rng, *(step * side for side in self._size))
        HouseFront(geometry_rng, canvas).draw()
        return canvas


def _n_samples(split: str, of_splits: Sequence[int]) -> int:
    """Return the number of samples of a split; raise DataError for other splits than SPLITS."""
    if split not in SPLITS:
        raise DataError(f"drawn data sets have no split {split!r}, only {', '.join(SPLITS)}")
    return of_splits[SPLITS.index(split)]


class SyntheticFacades(_DrawnHouses):
    """Label maps and photos of house fronts."""

    n_classes = len(CLASS_COLORS)
    own_classes: ClassVar[LabelColors | None] = LabelColors(
        "synthetic_facades", tuple(CLASS_COLORS), tuple(CLASS_COLORS.values())
    )

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
        height, width = synthetic_size
        if height * target_scale % 1 or width * target_scale % 1:
            raise DataError(
                f"data.synthetic_size is [{height},{width}], expected multiples of {1 / target_scale:g} with "
                f"generator.scale={target_scale:g}"
            )
        n_samples = _n_samples(split, synthetic_samples)
        return cls(split=split, seed=seed, n_samples=n_samples, height=height, width=width, target_scale=target_scale)

    def read(self, index: int) -> Sample:
        """Draw sample `index` at the larger size of source and target; reduce the smaller one from it.

        Source: (1, H, W) uint8 class ids. Instances: (1, H, W) int32. Target: (3, scale * H, scale * W) uint8 RGB.
        """
        step = max(1, round(self._scale))
        canvas = self._drawn(index, step)
        target = torch.from_numpy(canvas.photo())
        if self._scale < 1:
            target = resize_image(target, *(int(side * self._scale) for side in self._size))
        every = slice(step // 2, None, step)
        source, instances = (
            torch.from_numpy(ids[None, every, every].copy()) for ids in (canvas.labels, canvas.instances)
        )
        return Sample(name=self.names[index], source=source, instances=instances, target=target)


class SyntheticDayNight(_DrawnHouses):
    """The house fronts of SyntheticFacades by day and on winter nights.

    The train split has two domains without pairs: no house is in both. In the other splits a sample is one house in
    both lights, so that metrics measure what the training cannot see.
    """

    pairs = False

    @classmethod
    def open(
        cls, split: str, *, synthetic_samples: Sequence[int], synthetic_size: Sequence[int], seed: int, direction: str
    ) -> Layout:
        """Return a split of the data set with this many samples in each domain. See RegisteredLayout."""
        n_samples, (height, width) = _n_samples(split, synthetic_samples), synthetic_size
        houses = partial(cls, split=split, seed=seed, n_samples=n_samples, height=height, width=width)
        lights = ("day", "night") if direction == "AtoB" else ("night", "day")
        if split != "train":
            return houses(lights=lights)
        return UnpairedFolders(*(houses(lights=(light,), first=n_samples * (light == "night")) for light in lights))

    def read(self, index: int) -> Sample:
        """Draw sample `index`: uint8 RGB images, (3, H, W)."""
        images = [torch.from_numpy(self._drawn(index).photo(is_night=light == "night")) for light in self._lights]
        return Sample(name=self.names[index], source=images[0], target=images[1] if images[1:] else None)
