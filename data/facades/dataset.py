"""A data set of procedural house fronts, drawn when they are read: nothing is downloaded or stored."""

from pathlib import Path

import numpy as np
import torch

from data.batch import Sample
from data.facades.geometry import MIN_SIDE
from data.facades.renderer import CLASS_NAMES, render_facade
from data.layout import Origin

SPLITS = ("train", "val", "test")


class SyntheticFacades:
    """Label maps and photos of house fronts. Each is a function of (seed, split, index) and the size alone.

    split: one of SPLITS; the splits have no sample in common.
    seed: chooses another data set; not negative.
    n_samples: samples in this split.
    height, width: image size in pixels.
    """

    def __init__(self, *, split: str, seed: int, n_samples: int, height: int, width: int) -> None:
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r}: expected one of {', '.join(SPLITS)}")
        if seed < 0:
            raise ValueError(f"seed must not be negative, not {seed}")
        if n_samples < 1:
            raise ValueError(f"n_samples must be positive, not {n_samples}")
        if min(height, width) < MIN_SIDE:
            raise ValueError(f"facades need at least {MIN_SIDE} x {MIN_SIDE} pixels, not {height} x {width}")
        self._seed = (seed, SPLITS.index(split))
        self._size = (height, width)
        self.folders: tuple[Path, ...] = ()
        self.files: tuple[Path, ...] = ()
        self.names = tuple(f"facade_{index:05d}" for index in range(n_samples))

    @property
    def n_classes(self) -> int:
        """Number of classes; the ids in a label map are 0 .. n_classes - 1."""
        return len(CLASS_NAMES)

    def __len__(self) -> int:
        return len(self.names)

    def origin(self, index: int) -> Origin:
        """See Layout."""
        return Origin(f"synthetic_facades {self._seed} {self._size} {index}")

    def read(self, index: int) -> Sample:
        """Draw sample `index`, 0 .. len - 1.

        source: (1, H, W) uint8 class ids; instances: (1, H, W) int32; target: (3, H, W) uint8 RGB.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} facades")
        facade = render_facade(np.random.default_rng([*self._seed, index]), *self._size)
        return Sample(
            name=self.names[index],
            source=torch.from_numpy(facade.labels)[None],
            instances=torch.from_numpy(facade.instances)[None],
            target=torch.from_numpy(facade.photo).permute(2, 0, 1).contiguous(),
        )
