"""3x3 convolutions with a quarter of the products: Winograd's minimal filtering (Lavin & Gray 2016, F(4x4, 3x3))."""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_OUT, _IN = 4, 6  # sides of a tile of the output, and of the pixels that it depends on
# of one side: with these, `tile_rows.T @ ((kernel_rows @ kernel) * (pixel_rows @ pixels))` is a convolution
_PIXELS = [
    [4, 0, -5, 0, 1, 0],
    [0, -4, -4, 1, 1, 0],
    [0, 4, -4, -1, 1, 0],
    [0, -2, -1, 2, 1, 0],
    [0, 2, -1, -2, 1, 0],
    [0, 4, 0, -5, 0, 1],
]
_KERNEL = [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]  # times 24
_TILE = [[1, 0, 0, 0], [1, 1, 1, 1], [1, -1, 1, -1], [1, 2, 4, 8], [1, -2, 4, -8], [0, 0, 0, 1]]


class WinogradConvolution(torch.autograd.Function):
    """A convolution (N, C, H, W), (K, C, 3, 3) -> (N, K, H - 2, W - 2), best of channels-last images, on a CPU.

    Products are summed over other terms than in a direct convolution, so that results differ by rounding: in float32
    by 4e-6 of the largest.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """Convolve."""
        ctx.save_for_backward(x, weight)
        _, kernel, _ = _matrices(x.dtype)
        return _convolved(x, _transformed(kernel, weight).mT)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of image and weight that are wanted."""
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        pixels, kernel, tile = _matrices(x.dtype)
        for_x = for_weight = None
        if ctx.needs_input_grad[0]:  # the convolution of the bordered gradient by the mirrored kernel
            for_x = _convolved(F.pad(gradient, (2, 2, 2, 2)), _transformed(kernel.flip(1), weight))
        if ctx.needs_input_grad[1]:
            seen = _along_first(pixels, _tiles(x, _IN))
            products = _along_first(tile, _tiles(gradient, _OUT)).mT @ seen
            for_weight = (kernel.T @ products.transpose(0, 1)).unflatten(1, (3, 3)).permute(0, 3, 1, 2)
        return for_x, for_weight


@cache
def _matrices(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return the matrices of both sides at once: (36, 36) of pixels, (36, 9) of kernels, (36, 16) of tiles."""
    pixels, kernel, tile = (torch.tensor(rows, dtype=torch.float64) for rows in (_PIXELS, _KERNEL, _TILE))
    pixels, kernel, tile = (torch.kron(rows, rows).to(dtype) for rows in (pixels, kernel / 24, tile))
    return pixels, kernel, tile


def _convolved(x: Tensor, kernels: Tensor) -> Tensor:
    """Convolve (N, C, H, W) by transformed kernels (36, C, K)."""
    pixels, _, tile = _matrices(x.dtype)
    height, width = x.shape[2] - 2, x.shape[3] - 2
    tiles = _along_first(tile.T, _along_first(pixels, _tiles(x, _IN)) @ kernels)
    n_down, n_across = -(-height // _OUT), -(-width // _OUT)
    image = tiles.view(_OUT, _OUT, len(x), n_down, n_across, -1).permute(2, 3, 0, 4, 1, 5)
    image = image.reshape(len(x), n_down * _OUT, n_across * _OUT, -1)
    return image[:, :height, :width].permute(0, 3, 1, 2)


def _tiles(image: Tensor, side: int) -> Tensor:
    """Return the (side^2, number of tiles, C) pixels of tiles of (N, C, H, W), one for each 4x4 of the output."""
    beyond = [-(length - side) % _OUT for length in image.shape[2:]]
    if any(beyond):
        image = F.pad(image, (0, beyond[1], 0, beyond[0]))
    tiles = image.permute(0, 2, 3, 1).unfold(1, side, _OUT).unfold(2, side, _OUT)
    return tiles.permute(4, 5, 0, 1, 2, 3).reshape(side * side, -1, image.shape[1])


def _transformed(kernel: Tensor, weight: Tensor) -> Tensor:
    """Return (36, K, C) of (K, C, 3, 3)."""
    return (kernel @ weight.permute(0, 2, 3, 1).flatten(1, 2)).transpose(0, 1)


def _along_first(matrix: Tensor, x: Tensor) -> Tensor:
    return (matrix @ x.flatten(1)).unflatten(1, x.shape[1:])
