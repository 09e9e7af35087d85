"""Rotation, scale, shear and elastic deformation: one reading position per pixel, the same for all maps of a sample."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.limits import CONTROLS_PER_SIDE


@dataclass(frozen=True, eq=False)
class Warp:
    """One draw, without unit: the same for each resolution of a sample.

    inverse: ((a, b), (c, d)), the affine part, from positions (x, y) in the output to those in the image, both relative
        to the centre of the output's window.
    controls: (2, rows, columns) float32 displacements in x and y of the control points, in shares of the shorter side,
        as `controls_of` counts them; None without elastic deformation.
    """

    inverse: tuple[tuple[float, float], tuple[float, float]]
    controls: Tensor | None = None

    def positions(self, height: int, width: int) -> Tensor:
        """Return where each pixel of the output reads: (2, height, width) float32 of x and y, in pixels."""
        x = torch.arange(width) + (0.5 - width / 2)
        y = (torch.arange(height) + (0.5 - height / 2))[:, None]
        positions = torch.stack([from_x * x + from_y * y for from_x, from_y in self.inverse])
        if self.controls is not None:
            positions += min(height, width) * _between(self.controls, height, width)
        return positions


def affine_inverse(
    rotation_degrees: float, scale: float, shear_degrees: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return `Warp.inverse` of a horizontal shear, then a magnification, then a counter-clockwise rotation."""
    cosine, sine = math.cos(math.radians(rotation_degrees)) / scale, math.sin(math.radians(rotation_degrees)) / scale
    shear = math.tan(math.radians(shear_degrees))
    return (cosine - shear * sine, -sine - shear * cosine), (sine, cosine)


def controls_of(height: int, width: int) -> tuple[int, int]:
    """Return the rows and columns of control points of an output, with those outside that its borders depend on."""
    shorter = min(height, width)
    return math.ceil(CONTROLS_PER_SIDE * height / shorter) + 3, math.ceil(CONTROLS_PER_SIDE * width / shorter) + 3


def image_at(image: Tensor, positions: Tensor) -> Tensor:
    """Return a (C, H, W) image read at (2, h, w) positions from its upper left corner, in its own dtype.

    Bilinear; beyond the borders the image continues as its reflection.
    """
    x, y = _reflected(positions, image)
    left, top = (max(0, math.floor(float(axis.min()) - 0.5)) for axis in (x, y))
    part = image[:, top : math.ceil(float(y.max()) + 0.5), left : math.ceil(float(x.max()) + 0.5)]
    height, width = part.shape[-2:]
    grid = torch.stack([(x - left) * (2 / width) - 1, (y - top) * (2 / height) - 1], dim=-1)
    read = F.grid_sample(part.float()[None], grid[None], mode="bilinear", padding_mode="border", align_corners=False)
    return read[0] if image.is_floating_point() else read[0].round_().to(image.dtype)


def ids_at(ids: Tensor, positions: Tensor) -> Tensor:
    """Return a (C, H, W) map read at (2, h, w) positions: the nearest pixel's value, exact for every dtype."""
    x, y = _reflected(positions, ids)
    return ids[:, y.long().clamp_(max=ids.shape[-2] - 1), x.long().clamp_(max=ids.shape[-1] - 1)]


def weights_at(weights: Tensor, positions: Tensor) -> Tensor:
    """Return a (1, H, W) map of weights read as `image_at` reads, and 0 beyond the borders."""
    height, width = weights.shape[-2:]
    x, y = positions
    is_inside = (x >= 0) & (x <= width) & (y >= 0) & (y <= height)
    return image_at(weights, positions).float().mul_(is_inside).to(weights.dtype)  # torch multiplies no uint16


def _reflected(positions: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
    """Return x and y within 0 .. width and 0 .. height: pixel k lies between k and k + 1."""
    height, width = image.shape[-2:]
    x, y = positions[0].remainder(2 * width), positions[1].remainder(2 * height)
    return torch.minimum(x, 2 * width - x), torch.minimum(y, 2 * height - y)


def _between(controls: Tensor, height: int, width: int) -> Tensor:
    """Return (2, height, width) float32: the cubic B-splines of control points (Rueckert et al. 1999, eq. 1).

    A sum term by term: what a matrix product rounds to may depend on the number of threads.
    """
    distance = min(height, width) / CONTROLS_PER_SIDE
    _, n_rows, n_columns = controls.shape
    of_rows, of_columns = _weights(height, distance, n_rows), _weights(width, distance, n_columns)
    across = controls.new_zeros(2, n_rows, width)
    for control, weights in zip(controls.unbind(2), of_columns, strict=True):
        across.addcmul_(control[:, :, None], weights)
    between = controls.new_zeros(2, height, width)
    for control, weights in zip(across.unbind(1), of_rows, strict=True):
        between.addcmul_(control[:, None], weights[:, None])
    return between


def _weights(side: int, distance: float, n_controls: int) -> Tensor:
    """Return (n_controls, side) float32: the weight of each control point for each pixel along a side."""
    pixels = (torch.arange(side) + 0.5) / distance + 1  # the first control point lies one distance outside
    offset = (pixels - torch.arange(n_controls)[:, None]).abs()
    near = 2 / 3 - offset**2 + offset**3 / 2
    return torch.where(offset < 1, near, (2 - offset).clamp(min=0) ** 3 / 6)
