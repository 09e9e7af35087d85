"""Procedural house fronts: a label map, its instances and a photo-like image from one random generator."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.facades.canvas import FacadeClass
from data.facades.geometry import draw_layout
from data.facades.painting import paint

CLASS_NAMES: tuple[str, ...] = tuple(kind.name.lower() for kind in FacadeClass)
"""Names of the classes, by class id."""

CLASS_COLORS: NDArray[np.uint8] = np.array(
    [
        (135, 206, 250),  # sky
        (200, 85, 60),  # wall
        (90, 70, 140),  # roof
        (30, 80, 200),  # window
        (0, 150, 136),  # door
        (150, 215, 90),  # shutter
        (70, 70, 70),  # balcony
        (250, 205, 60),  # cornice
        (235, 60, 160),  # shop
        (120, 60, 30),  # chimney
        (25, 130, 50),  # plant
        (185, 185, 185),  # pavement
    ],
    dtype=np.uint8,
)
"""(K, 3) uint8 RGB colour in which each class is displayed."""


@dataclass(frozen=True)
class Facade:
    """One house front.

    labels: (H, W) uint8 class ids, indices of CLASS_NAMES.
    instances: (H, W) int32 ids; each belongs to one class.
    photo: (H, W, 3) uint8 RGB image.
    """

    labels: NDArray[np.uint8]
    instances: NDArray[np.int32]
    photo: NDArray[np.uint8]


def render_facade(rng: np.random.Generator, height: int, width: int) -> Facade:
    """Draw and paint a house front of `height` x `width` pixels, each at least 32.

    Geometry and appearance have separate random streams, so that a change of one does not change the other.
    """
    layout_rng, appearance_rng = rng.spawn(2)
    layout = draw_layout(layout_rng, height, width)
    return Facade(layout.labels, layout.instances, paint(appearance_rng, layout))
