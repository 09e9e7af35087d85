"""Layout `synthetic_facades`: procedural house fronts, drawn when they are read; nothing is downloaded or stored."""

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
import torch

from data.batch import DataError, Sample
from data.facades.house_front import CLASS_COLORS, HouseFront, draw_house_front
from data.facades.painting import paint
from data.layout import ClassTable, Provenance, RegisteredLayout
from data.preprocessing import resize_image

SPLITS = ("train", "val", "test")


def samples_of(split: str, *counts: int, layout: str) -> int:
    """Return the number of samples of a split, given those of all splits.

    Raises:
        DataError: there is no such split.
    """
    if split not in SPLITS:
        raise DataError(f"{layout} has no split {split!r}, only {', '.join(SPLITS)}")
    return counts[SPLITS.index(split)]


def draw_house(seed: Sequence[int], height: int, width: int) -> tuple[HouseFront, np.random.Generator]:
    """Return a house front, and the random generator of its appearance."""
    # separate streams: the geometry does not depend on what the appearance draws
    geometry_rng, appearance_rng = np.random.default_rng([*seed]).spawn(2)
    return draw_house_front(geometry_rng, height, width), appearance_rng


class SyntheticFacades(RegisteredLayout):
    """Label maps and photos of house fronts, each a function of (seed, split, index) and the size alone.

    split: one of SPLITS; the splits have no sample in common.
    seed: another seed gives another data set; not negative.
    n_samples: number of samples in this split.
    height, width: size of the images in pixels, at least 32.
    target_scale: sides of a photo, in those of its label map, a power of 2; for less than 1 it must be a whole number
        of pixels.
    """

    n_classes = len(CLASS_COLORS)
    own_classes: ClassVar[ClassTable | None] = ClassTable(
        tuple(CLASS_COLORS), torch.tensor([*CLASS_COLORS.values()], dtype=torch.uint8)
    )

    def __init__(
        self, *, split: str, seed: int, n_samples: int, height: int, width: int, target_scale: float = 1.0
    ) -> None:
        self._scale = target_scale
        self._seed = (seed, SPLITS.index(split))
        self._size = (height, width)
        self.names = tuple(f"facade_{index:05d}" for index in range(n_samples))

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
        n_samples = samples_of(split, train_samples, val_samples, test_samples, layout="synthetic_facades")
        if height * target_scale % 1 or width * target_scale % 1:
            raise DataError(
                f"data.synthetic.width x height is {width}x{height}, expected multiples of {1 / target_scale:g} with "
                f"generator.scale={target_scale:g}"
            )
        return cls(split=split, seed=seed, n_samples=n_samples, height=height, width=width, target_scale=target_scale)

    @classmethod
    def has_split(cls, split: str) -> bool:
        """Return whether `split` is one of SPLITS."""
        return split in SPLITS

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        scale = "" if self._scale == 1 else f" {self._scale:g}"
        return Provenance(f"synthetic_facades v2 {self._seed} {self._size} {index}{scale}")

    def read(self, index: int) -> Sample:
        """Draw sample `index`, 0 .. len - 1.

        Its source is (1, H, W) uint8 class ids, its instances (1, H, W) int32, its target uint8 RGB, (3, H, W) at a
        scale of 1. Of a source and a target, the larger one is drawn; the other is made of it.

        Raises:
            IndexError: there is no such sample.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} facades")
        step = max(1, round(self._scale))  # pixels of the drawing in each direction, of which the source has one
        height, width = (step * side for side in self._size)
        front, appearance_rng = draw_house([*self._seed, index], height, width)
        target = torch.from_numpy(paint(appearance_rng, front))
        if self._scale < 1:
            target = resize_image(target, *(int(side * self._scale) for side in self._size))
        places = slice(step // 2, None, step)
        source, instances = (
            torch.from_numpy(ids[None, places, places]).contiguous() for ids in (front.labels, front.instances)
        )
        return Sample(name=self.names[index], source=source, instances=instances, target=target)
