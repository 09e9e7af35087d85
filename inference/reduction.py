"""A large image reduced to one that can be looked at."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from data.files.stored_images import StoredRows

_PIXELS = 2**21  # of a reduced image, at most four times as many
_ROWS = 256


class Reduction:
    """The means of squares of pixels of an image that comes in bands from top to bottom.

    height, width: of the image.
    """

    def __init__(self, height: int, width: int) -> None:
        self._side = max(1, math.isqrt(height * width // _PIXELS))
        self._shape = -(-height // self._side), -(-width // self._side)
        self._sums, self._n_pixels = torch.zeros(0), torch.zeros(self._shape)
        self._top = 0
        self._dtype = torch.uint8

    def add(self, band: Tensor) -> None:
        """Add the next rows, (C, h, W)."""
        if not self._sums.numel():
            self._sums, self._dtype = torch.zeros(len(band), *self._shape), band.dtype
        rows = torch.arange(self._top, self._top + band.shape[1]) // self._side
        self._sums.index_add_(1, rows, self._sums_of_columns(band.float()))
        self._n_pixels.index_add_(0, rows, self._sums_of_columns(torch.ones(band.shape[1:])))
        self._top += band.shape[1]

    def _sums_of_columns(self, rows: Tensor) -> Tensor:
        return F.pad(rows, (0, -rows.shape[-1] % self._side)).unflatten(-1, (-1, self._side)).sum(-1)

    def image(self) -> Tensor:
        """Return the reduced image, (C, h, w) of the type of the bands."""
        means = self._sums / self._n_pixels
        return means if self._dtype.is_floating_point else means.round().to(self._dtype)


def reduced_rows(rows: StoredRows) -> Tensor:
    """Read an image, and return it reduced.

    Raises:
        DataError: the file is damaged, or holds values that cannot be used.
    """
    reduction = Reduction(rows.height, rows.width)
    for top in range(0, rows.height, _ROWS):
        reduction.add(rows.read(top, min(top + _ROWS, rows.height)))
    return reduction.image()


def reduced(image: Tensor, *, is_ids: bool = False) -> Tensor:
    """Return a (C, H, W) image, or map of ids, reduced."""
    height, width = image.shape[-2:]
    if is_ids:
        side = max(1, math.isqrt(height * width // _PIXELS))
        return image[:, ::side, ::side]
    reduction = Reduction(height, width)
    for band in image.split(_ROWS, dim=1):
        reduction.add(band)
    return reduction.image()
