"""Draw heads as MR and CT volumes, for tests and the documentation.

Bone and air are both dark in the MR. Its noise is independent in each voxel, so neighbouring slices help a network.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

FIELD_MM = 192.0  # height and width of a drawn slice; voxels are cubes
_TISSUES = {  # CT value in HU, its standard deviation between patients, MR signal (T1-weighted)
    "air": (-1000, 0, 0.02),
    "fat": (-100, 8, 1.0),
    "muscle": (50, 5, 0.5),
    "fluid": (8, 3, 0.2),
    "grey": (38, 3, 0.55),
    "white": (30, 3, 0.74),
    "marrow": (350, 60, 0.1),
    "bone": (950, 120, 0.06),
    "tooth": (1450, 60, 0.04),
}
_SPINE = range(-160, -65, 19)
_SHAPES = {  # ellipsoids: tissue, centre and radii (up, back, left) in mm, turn in the slice in degrees if it is not 0
    "skin": "fat -2 0 0 62 84 68; fat -56 -34 0 56 46 53",
    "neck, nose, ears": "fat -118 22 0 76 47 50; fat -44 -80 0 15 12 9; fat -34 6 66 17 9 6 -20",
    "muscles": "muscle -18 -26 57 30 28 8 12; muscle -56 -32 0 50 41 47; muscle -118 22 0 76 42 45",
    "skull": "bone -2 1 0 57 78 62; bone -42 34 0 26 40 50; marrow -2 1 0 54.5 75.5 59.5; bone -2 1 0 53 73.5 58",
    "face": "bone -30 -62 29 20 18 20; bone -62 -52 0 18 27 31; bone -50 -52 45 5 20 4 18",
    "brain": "fluid -2 1 0 51 71 55.5; fluid -42 34 0 21 34 44; grey -1 1 0 49 68 53.5; white 0 1 0 41 60 45",
    "base, cerebellum": "bone -42 -20 0 9 42 42; grey -43 37 21 16 25 21; white -43 30 13 8 13 12",
    "ventricles": "white -66 16 0 52 9 10; fluid 20 0 0 34 69 2; fluid 10 -16 9 11 25 5 12; fluid 4 24 16 12 20 5 -18",
    "ear canals": "bone -42 8 38 10 8 22 35; air -50 20 52 12 7 6; air -42 2 58 3 3 14",
    "eyes": "fat -30 -60 29 16 24 16 -14; muscle -30 -48 27 2.5 20 2.5 -14; fluid -30 -68 30 12 12 12",
    "sinuses": "air -6 -72 7 10 4 8 20; air -58 -52 21 14 16 11; air -36 -26 5 8 12 7; air -50 -54 5 18 28 4",
    "mouth": "bone -98 -44 0 17 36 38; muscle -94 -36 0 27 37 31; tooth -80 -66 9 8 4 11 -22; air -86 -6 0 44 6 10",
    "vertebrae": ";".join(f"bone {z} 14 0 8 10 13; bone {z} 29 9 5 13 4 25; bone {z} 42 0 4 12 3" for z in _SPINE),
    "spinal cord": "fluid -122 28 0 70 7 8; white -122 28 0 70 4 5",
}
_REACH_MM = 22  # margin around a shape, because pose and deformation move it
_MR_NOISE, _CT_NOISE_HU = 0.35, 12.0  # standard deviations; the MR signal of fat is 1


@dataclass(frozen=True, eq=False)
class DrawnPatient:
    """A drawn head as arrays (D, H, W). The axes point up, to the back, and to the patient's left.

    mr: float32 of at least 0, in arbitrary units that differ between patients.
    ct: int16 in HU, -1024 outside the body.
    mask: uint8, 1 in the body and 0 outside.
    """

    mr: Floats
    ct: NDArray[np.int16]
    mask: NDArray[np.uint8]


def draw_patient(seed: int, index: int, size: Sequence[int]) -> DrawnPatient:
    """Draw patient `index` of the data set `seed`. Equal arguments give equal volumes.

    size: Depth, height and width in voxels. The shorter of height and width shows FIELD_MM.
    """
    rng, step = np.random.default_rng([seed, index]), FIELD_MM / min(size[1:])
    points = _points(rng, size, step)
    ct, mr, body = np.full(size, -1000, np.float32), np.zeros(size, np.float32), np.zeros(size, np.float32)
    tissues = {name: (hu + sd * rng.normal(), t1 * rng.normal(1, 0.05), 1) for name, (hu, sd, t1) in _TISSUES.items()}
    for tissue, *numbers in (shape.split() for part in _SHAPES.values() for shape in part.split(";")):
        centre, radii, (turn, *_) = np.split(np.array([*numbers, 0], np.float32), (3, 6))
        for side in (-1, 1) if centre[2] else (1,):  # other shapes are in the middle of the head
            place = (centre * (1, 1, side) + rng.normal(0, 0.6, 3)).astype(np.float32)
            box = tuple(_near(middle, max(radii) + _REACH_MM, n, step) for middle, n in zip(place, size, strict=True))
            offsets, angle = points[:, *box] - place[:, None, None, None], side * np.radians(turn)
            share = _share(offsets, radii * rng.normal(1, 0.015, 3).astype(np.float32), angle, step)
            for values, value in zip((ct, mr, body), tissues[tissue], strict=True):
                values[box] += share * (np.float32(value) - values[box])
    weights = np.append(rng.normal(0, 0.12, 3), rng.uniform(-0.25, -0.05)).astype(np.float32)
    points *= np.float32(2 / FIELD_MM)
    mr *= np.exp(np.tensordot(weights, [*points, (points * points).sum(axis=0)], 1))  # uneven sensitivity of the coils
    mr += rng.normal(0, _MR_NOISE, mr.shape)
    ct += rng.normal(0, _CT_NOISE_HU, ct.shape)
    mask, unit = body > 0.5, np.float32(np.exp(rng.uniform(5, 8)))
    hu = np.where(mask, ct.clip(-1024).round(), -1024).astype(np.int16)
    return DrawnPatient(np.abs(mr) * unit, hu, mask.astype(np.uint8))


def _points(rng: np.random.Generator, size: Sequence[int], step: float) -> Floats:
    """Return the place of each voxel in the undeformed head, (3, D, H, W), in mm from the middle."""
    axes = [(np.arange(n) - (n - 1) / 2) * step for n in size]
    turns, scales = np.radians(rng.normal(0, 2.5, 3)), rng.uniform(1, 1.09, 3)
    points = np.empty((3, *size), np.float32)
    for axis, row in enumerate((np.eye(3) + np.cross(np.eye(3), turns)) * scales[:, None]):  # a small rotation
        waves = [1.2 * np.sin(values * rng.uniform(0.03, 0.07) + rng.uniform(0, 6.28)) for values in axes]
        up, back, left = (factor * values + wave for factor, values, wave in zip(row, axes, waves, strict=True))
        points[axis] = (up[:, None, None] + back[:, None] + left) + rng.normal(0, 1.5)
    return points


def _near(middle: float, reach: float, n: int, step: float) -> slice:
    """Return the voxels of an axis with `n` voxels that may be within `reach` mm of `middle`."""
    first, last = (max(0, int((middle + distance) / step + n / 2)) for distance in (-reach, reach))
    return slice(first, last + 1)


def _share(offsets: Floats, radii: Floats, angle: float, step: float) -> Floats:
    """Return the share of each voxel within an ellipsoid, 0 to 1. The border is about a voxel wide.

    offsets: Places relative to the centre in mm, (3, D, H, W).
    """
    up, back, left = offsets
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    scaled = np.stack([up, cos * back + sin * left, cos * left - sin * back]) / radii[:, None, None, None]
    radius = np.sqrt(np.square(scaled).sum(axis=0)) + np.float32(1e-6)  # 1 on the surface
    slope = np.sqrt(np.square(scaled / radii[:, None, None, None]).sum(axis=0)) + np.float32(1e-6 / radii.max())
    return np.clip(0.5 + (1 - radius) * radius / (slope * np.float32(step)), 0, 1)
