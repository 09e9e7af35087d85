"""Layout `synthetic_day_night`: house fronts by day and others on winter nights, drawn when they are read."""

from typing import Any

import torch

from data.batch import Sample
from data.facades.dataset import SPLITS, draw_house, samples_of
from data.facades.painting import paint, paint_winter_night
from data.layout import Layout, Provenance, RegisteredLayout
from data.unpaired_folders import UnpairedFolders

_PAINTERS = {"day": paint, "night": paint_winter_night}


class SyntheticDayNight(RegisteredLayout):
    """The house fronts of SyntheticFacades in one light or two.

    For training, the sides are without pairs: no house is on both. In the other splits a sample is one house in both
    lights, so that metrics measure what the training cannot see.

    lights: "day" or "night" of the source and, where there is one, of the target.
    seed: of the houses. numbers: of the houses, which are functions of seed and number.
    height, width: in pixels, at least 32.
    """

    def __init__(self, lights: tuple[str, ...], seed: tuple[int, int], numbers: range, height: int, width: int) -> None:
        self._lights = lights
        self._seed = seed
        self._numbers = numbers
        self._size = (height, width)
        self.names = tuple(f"facade_{number:05d}" for number in numbers)

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
        n_samples = samples_of(split, train_samples, val_samples, test_samples, layout="synthetic_day_night")
        lights = ("day", "night") if direction == "AtoB" else ("night", "day")
        houses: Any = {"seed": (seed, SPLITS.index(split)), "height": height, "width": width}
        if split != "train":
            return cls(lights, numbers=range(n_samples), **houses)
        numbers = {"day": range(n_samples), "night": range(n_samples, 2 * n_samples)}
        source, target = (cls((light,), numbers=numbers[light], **houses) for light in lights)
        return UnpairedFolders(source, target)

    @classmethod
    def has_split(cls, split: str) -> bool:
        """Return whether `split` is one of SPLITS."""
        return split in SPLITS

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        lights = " ".join(self._lights)
        return Provenance(f"synthetic_day_night v1 {lights} {self._seed} {self._size} {self._numbers[index]}")

    def read(self, index: int) -> Sample:
        """Draw sample `index`, 0 .. len - 1: uint8 RGB images, (3, H, W)."""
        images = []
        for light in self._lights:
            front, rng = draw_house([*self._seed, self._numbers[index]], *self._size)
            images.append(torch.from_numpy(_PAINTERS[light](rng, front)))
        source, target = images if len(images) > 1 else (images[0], None)
        return Sample(name=self.names[index], source=source, instances=None, target=target)
