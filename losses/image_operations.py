"""The operations of DiffAugment, with one parameter for each sample (Zhao et al. 2020, section 3.2, figure 4).

Images are (N, C, H, W) floats, usually in [-1, 1]; nothing is clamped. Parameters are (N,). Gradients reach the images.
"""

from typing import Any, cast

import torch
from torch import Tensor


def brightness(images: Tensor, draws: Tensor) -> Tensor:
    """Return x + (u - 1/2), for draws u in [0, 1]."""
    return images + (_per_sample(draws, images) - 0.5)


def saturation(images: Tensor, draws: Tensor) -> Tensor:
    """Scale by 2 u the distance of each pixel from the mean of its channels, for draws u in [0, 1]."""
    return _scaled_about(images, images.mean(dim=1, keepdim=True), 2 * _per_sample(draws, images))


def contrast(images: Tensor, draws: Tensor) -> Tensor:
    """Scale by u + 1/2 the distance from the mean of the sample, for draws u in [0, 1]."""
    return _scaled_about(images, images.mean(dim=(1, 2, 3), keepdim=True), _per_sample(draws, images) + 0.5)


def translate(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return y[r, c] = x[r + rows, c + columns], and zeros where that is outside; rows, columns: (N,) int64.

    An index of every pixel would do, but its gradient is a sum into places that the device finds in any order: here it
    is the translation back, which is as fast and has the same bits each time.
    """
    return cast(Tensor, _Translation.apply(images, rows, columns))


def cut_out(images: Tensor, rows: Tensor, columns: Tensor, height: int, width: int) -> Tensor:
    """Set to zero the height x width box whose first pixel is at (rows, columns), (N,) int64, as far as it is inside.

    A box outside of the image changes nothing.
    """
    in_rows, in_columns = (
        (places >= first) & (places < first + size)
        for places, first, size in (
            (_places(images, -2), rows[:, None], height),
            (_places(images, -1), columns[:, None], width),
        )
    )
    return images.masked_fill((in_rows[:, :, None] & in_columns[:, None, :])[:, None], 0.0)


class _Translation(torch.autograd.Function):
    """Differentiable any number of times, since the gradient of a translation is one."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        ctx.save_for_backward(rows, columns)
        height, width = images.shape[-2:]
        from_rows = _places(images, -2) + rows[:, None]
        from_columns = _places(images, -1) + columns[:, None]
        is_inside = _inside(from_rows, height)[:, :, None] & _inside(from_columns, width)[:, None, :]
        index = from_rows.clamp(0, height - 1)[:, :, None] * width + from_columns.clamp(0, width - 1)[:, None, :]
        pixels = images.flatten(2)
        moved = pixels.gather(2, index.flatten(1)[:, None].expand_as(pixels)).view(images.shape)
        return moved.masked_fill_(is_inside[:, None].logical_not(), 0.0)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        rows, columns = ctx.saved_tensors
        return _Translation.apply(gradients[0], -rows, -columns), None, None


def _places(images: Tensor, dim: int) -> Tensor:
    """Return 0, 1, … along a dimension, (1, size)."""
    return torch.arange(images.shape[dim], device=images.device)[None]


def _inside(places: Tensor, size: int) -> Tensor:
    return (places >= 0) & (places < size)


def _per_sample(draws: Tensor, images: Tensor) -> Tensor:
    return draws.to(images.dtype).view(-1, 1, 1, 1)


def _scaled_about(images: Tensor, center: Tensor, factor: Tensor) -> Tensor:
    return (images - center) * factor + center
