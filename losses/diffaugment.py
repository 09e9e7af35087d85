"""DiffAugment: the discriminator sees augmented images in the updates of both networks (Zhao et al. 2020, figure 4).

With paired data, `translation` shifts the source together with the image. `color` and `cutout` change only the image.
The real and the translated image of a sample get the same augmentation. Otherwise the discriminator could
distinguish them by their augmentation, and feature matching would compare different positions. Values are not clipped.
Gradients reach the images.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.device import at_least_float32

Operation = Callable[[Tensor], Tensor]
"""Function that augments (N, C, H, W) images with fixed parameters."""


def color(images: Tensor, brightness: Tensor, saturation: Tensor, contrast: Tensor) -> Tensor:
    """Change brightness, then saturation, then contrast of (N, C, H, W) images.

    brightness, saturation, contrast: Numbers u in [0, 1), (N,) each. u = 1/2 changes nothing. Brightness adds u - 1/2.
        Saturation multiplies the difference between a pixel and the mean of the pixel's channels by 2 u. Contrast
        multiplies the difference between a pixel and the mean of the image by u + 1/2.
    """
    draws = (brightness, saturation, contrast)
    brightness, saturation, contrast = (draw.to(images.dtype).view(-1, 1, 1, 1) for draw in draws)
    images = images + (brightness - 0.5)
    gray = images.mean(dim=1, keepdim=True)
    images = (images - gray) * (2 * saturation) + gray
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return (images - mean) * (contrast + 0.5) + mean


def translation(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return y[r, c] = x[r + rows, c + columns] for (N, C, H, W) images x. Outside of the image, x is 0.

    A zero is grey in an image, and means no class in one-hot labels. rows, columns: (N,) int64.
    """
    return cast(Tensor, _Translation.apply(images, rows, columns))


def cutout(images: Tensor, rows: Tensor, columns: Tensor, height: int, width: int) -> Tensor:
    """Return (N, C, H, W) images with zeros in a box.

    rows, columns: First row and column of the box, (N,) int64. The box can extend beyond the image.
    height, width: Size of the box, in pixels.
    """
    in_rows = _in_range(_positions(images, -2), rows, height)
    in_columns = _in_range(_positions(images, -1), columns, width)
    return images.masked_fill((in_rows[:, :, None] & in_columns[:, None, :])[:, None], 0.0)


@dataclass(frozen=True)
class Transform:
    """One fixed augmentation of N samples: operations by name, in the order of the policy.

    Source and image shift by the same number of pixels, even if their sizes differ.
    """

    operations: Mapping[str, Operation] = field(default_factory=dict)

    def of_source(self, source: Tensor) -> Tensor:
        """Return the transformed sources of the samples, (N, C, H, W): labels, edges or images."""
        return self.operations["translation"](source) if "translation" in self.operations else source

    def of_image(self, images: Tensor) -> Tensor:
        """Return the transformed real or translated images, (N, C, H, W), in at least float32."""
        if self.operations:
            images = at_least_float32(images)
        for operation in self.operations.values():
            images = operation(images)
        return images


@dataclass(frozen=True)
class DiffAugment:
    """Augmentation policy, which draws a transform for each pass of the discriminator.

    policy: Names of operations (keys of DRAWS), in the order of their application.
    """

    policy: Sequence[str] = ()

    def draw(self, images: Tensor, generator: torch.Generator | None = None) -> Transform:
        """Return a transform with random parameters for each image, drawn on the device of the images.

        images: (N, C, H, W).
        generator: Random generator. The default is torch's global generator. Checkpoints save its state.
        """
        return Transform({name: DRAWS[name](images, generator) for name in self.policy})


def _draw_color(images: Tensor, generator: torch.Generator | None) -> Operation:
    brightness, saturation, contrast = (
        torch.rand(len(images), device=images.device, generator=generator) for _ in range(3)
    )
    return partial(color, brightness=brightness, saturation=saturation, contrast=contrast)


def _draw_translation(images: Tensor, generator: torch.Generator | None) -> Operation:
    """Return a random shift by up to an eighth of height and width."""
    reach = [(side + 4) // 8 for side in images.shape[-2:]]
    rows, columns = (_integers(-most, most, images, generator) for most in reach)
    return partial(translation, rows=rows, columns=columns)


def _draw_cutout(images: Tensor, generator: torch.Generator | None) -> Operation:
    """Return a cutout with a random center and half of the image's height and width."""
    sides = images.shape[-2:]
    height, width = sizes = [(side + 1) // 2 for side in sides]
    rows, columns = (
        _integers(0, side - size % 2, images, generator) - size // 2 for side, size in zip(sides, sizes, strict=True)
    )
    return partial(cutout, rows=rows, columns=columns, height=height, width=width)


def _integers(least: int, most: int, images: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return a random integer from `least` to `most`, inclusive, for each image, (N,) int64."""
    return torch.randint(least, most + 1, (len(images),), device=images.device, generator=generator)


DRAWS: dict[str, Callable[[Tensor, torch.Generator | None], Operation]] = {
    "color": _draw_color,
    "translation": _draw_translation,
    "cutout": _draw_cutout,
}


class _Translation(torch.autograd.Function):
    """Function `translation` with derivatives of any order. The gradient is shifted in the opposite direction.

    On a GPU, the gradient of plain indexing would add values in an order that varies from run to run.
    """

    @staticmethod
    def forward(ctx: Any, images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        ctx.save_for_backward(rows, columns)
        n, channels, height, width = images.shape
        bordered = F.pad(images, (1, 1, 1, 1))  # pixels outside of the image are read from this border of zeros
        from_rows = (_positions(images, -2) + rows[:, None] + 1).clamp(0, height + 1)
        from_columns = (_positions(images, -1) + columns[:, None] + 1).clamp(0, width + 1)
        index = from_rows[:, :, None] * (width + 2) + from_columns[:, None, :]
        return bordered.flatten(2).gather(2, index.view(n, 1, -1).expand(-1, channels, -1)).view(images.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        rows, columns = ctx.saved_tensors
        return _Translation.apply(gradients[0], -rows, -columns), None, None


def _positions(images: Tensor, dim: int) -> Tensor:
    """Return the indices 0, 1, … of a dimension, (1, size)."""
    return torch.arange(images.shape[dim], device=images.device)[None]


def _in_range(positions: Tensor, first: Tensor, size: int) -> Tensor:
    """Return (N, n) bool: first <= positions < first + size. positions: (1, n). first: (N,)."""
    return (positions >= first[:, None]) & (positions < first[:, None] + size)
