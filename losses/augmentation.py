"""DiffAugment: what the discriminator sees is augmented, in the training of both networks (Zhao et al. 2020).

For pairs, of a source and an image, what moves pixels is applied to both, and what changes their values to the image
alone. The images of a sample, translated and real, share its parameters: the discriminator cannot distinguish them by
these, and feature matching compares position by position.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor

from utils.precision import at_least_float32


@dataclass(frozen=True)
class Samples:
    """The samples that parameters are drawn for: n images of some sides, height and width in pixels, on a device.

    probability: that an operation is applied to a sample. generator: of the draws; None is torch's global one.
    """

    n: int
    sides: tuple[int, int]
    device: torch.device
    probability: float | Tensor
    generator: torch.Generator | None

    def fractions(self) -> Tensor:
        """Draw (N,) float32 in [0, 1)."""
        return torch.rand(self.n, device=self.device, generator=self.generator)

    def integers(self, least: int, most: int) -> Tensor:
        """Draw (N,) int64 in least .. most."""
        return torch.randint(least, most + 1, (self.n,), device=self.device, generator=self.generator)

    def are_chosen(self) -> Tensor:
        """Draw the samples, (N,) bool, that an operation is applied to."""
        return self.fractions() < self.probability


class Operation(ABC):
    """An operation with its parameters for N samples; it is applied to sources too if it moves pixels."""

    moves_pixels: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def draw(cls, samples: Samples) -> Self:
        """Draw the parameters on the device, without asking it for a value; the neutral ones for samples not chosen."""

    @abstractmethod
    def of_image(self, images: Tensor) -> Tensor:
        """Apply it to (N, C, H, W) images, or sources."""


# The operations of figure 4 there, with one parameter for each sample. Nothing is clamped, and gradients reach the
# images.


@dataclass(frozen=True)
class Color(Operation):
    """Brightness, saturation and contrast, in this order: (N,) each in [0, 1), 1/2 changes nothing."""

    brightness: Tensor
    saturation: Tensor
    contrast: Tensor

    @classmethod
    def draw(cls, samples: Samples) -> Self:
        """Draw uniformly."""
        are_chosen = samples.are_chosen()
        return cls(*(torch.where(are_chosen, samples.fractions(), 0.5) for _ in range(3)))

    def of_image(self, images: Tensor) -> Tensor:
        """Change the colours.

        By draws u: add u - 1/2, scale the distance of a pixel from the mean of its channels by 2 u, and that from the
        mean of the sample by u + 1/2.
        """
        factors = (self.brightness, self.saturation, self.contrast)
        brightness, saturation, contrast = (draws.to(images.dtype).view(-1, 1, 1, 1) for draws in factors)
        images = images + (brightness - 0.5)
        images = _scaled_about(images, images.mean(dim=1, keepdim=True), 2 * saturation)
        return _scaled_about(images, images.mean(dim=(1, 2, 3), keepdim=True), contrast + 0.5)


@dataclass(frozen=True)
class Translation(Operation):
    """A move by whole pixels, whose place is taken by zeros: grey in an image, no class in one-hot labels.

    rows, columns: (N,) int64; y[r, c] = x[r + rows, c + columns].
    """

    moves_pixels: ClassVar = True

    rows: Tensor
    columns: Tensor

    @classmethod
    def draw(cls, samples: Samples) -> Self:
        """Draw uniformly, up to an eighth of each side."""
        are_chosen = samples.are_chosen()
        reaches = ((side + 4) // 8 for side in samples.sides)  # rounded, the larger one from the middle
        return cls(*(samples.integers(-reach, reach) * are_chosen for reach in reaches))

    def of_image(self, images: Tensor) -> Tensor:
        """Move the images."""
        return cast(Tensor, _Translation.apply(images, self.rows, self.columns))


@dataclass(frozen=True)
class Cutout(Operation):
    """A box of zeros in the image, whose middle may be anywhere in it.

    rows, columns: (N,) int64, the first pixel of the box, which may be outside of the image.
    height, width: of the box, in pixels.
    """

    rows: Tensor
    columns: Tensor
    height: int
    width: int

    @classmethod
    def draw(cls, samples: Samples) -> Self:
        """Draw boxes of half the sides, uniformly."""
        are_chosen = samples.are_chosen()
        height, width = ((side + 1) // 2 for side in samples.sides)
        rows, columns = (
            # one that is not chosen has its box beside the image
            torch.where(are_chosen, samples.integers(0, side - size % 2) - size // 2, -size)
            for side, size in zip(samples.sides, (height, width), strict=True)
        )
        return cls(rows, columns, height, width)

    def of_image(self, images: Tensor) -> Tensor:
        """Cut the boxes out, as far as they are inside."""
        rows, columns = _places(images, -2), _places(images, -1)
        in_rows = (rows >= self.rows[:, None]) & (rows < self.rows[:, None] + self.height)
        in_columns = (columns >= self.columns[:, None]) & (columns < self.columns[:, None] + self.width)
        return images.masked_fill((in_rows[:, :, None] & in_columns[:, None, :])[:, None], 0.0)


OPERATIONS: dict[str, type[Operation]] = {"color": Color, "translation": Translation, "cutout": Cutout}


@dataclass(frozen=True)
class Transform:
    """Operations with their parameters for N samples, in the order in which they are applied; with none, the identity.

    Images and sources of other sizes than the parameters were drawn for are moved and cut by as many pixels.
    """

    operations: Sequence[Operation] = ()

    def of_source(self, source: Tensor) -> Tensor:
        """Transform the (N, C, H, W) condition of the samples: labels, edges or an image."""
        for operation in self.operations:
            if operation.moves_pixels:
                source = operation.of_image(source)
        return source

    def of_image(self, images: Tensor) -> Tensor:
        """Transform (N, C, H, W) images of the samples, real or translated; in float32 where they are in less."""
        if self.operations:
            images = at_least_float32(images)
        for operation in self.operations:
            images = operation.of_image(images)
        return images


@dataclass(frozen=True)
class Augmentation:
    """Draws a transform for each pass of the discriminator.

    policy: names of OPERATIONS in the order in which they are applied; none is no augmentation, without any draw.
    probability: that an operation is applied to a sample, for each of them by itself; a 0-d tensor on the device where
        it changes.
    """

    policy: Sequence[str] = ()
    probability: float | Tensor = 1.0

    def draw(self, images: Tensor, generator: torch.Generator | None = None) -> Transform:
        """Return a transform with parameters for each of (N, C, H, W) images, drawn on their device.

        generator: torch's global one by default, whose state is saved in checkpoints.
        """
        n, _, height, width = images.shape
        samples = Samples(n, (height, width), images.device, self.probability, generator)
        return Transform([OPERATIONS[name].draw(samples) for name in self.policy])


class _Translation(torch.autograd.Function):
    """Differentiable any number of times, since the gradient of a translation is one: the translation back.

    That of an index of every pixel would be a sum into places that the device finds in any order. This is as fast and
    has the same bits each time.
    """

    @staticmethod
    def forward(ctx: Any, images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        ctx.save_for_backward(rows, columns)
        height, width = images.shape[-2:]
        from_rows, from_columns = _places(images, -2) + rows[:, None], _places(images, -1) + columns[:, None]
        are_rows, are_columns = (from_rows >= 0) & (from_rows < height), (from_columns >= 0) & (from_columns < width)
        index = from_rows.clamp(0, height - 1)[:, :, None] * width + from_columns.clamp(0, width - 1)[:, None, :]
        pixels = images.flatten(2)
        moved = pixels.gather(2, index.flatten(1)[:, None].expand_as(pixels)).view(images.shape)
        return moved.masked_fill_((are_rows[:, :, None] & are_columns[:, None, :])[:, None].logical_not(), 0.0)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        rows, columns = ctx.saved_tensors
        return _Translation.apply(gradients[0], -rows, -columns), None, None


def _places(images: Tensor, dim: int) -> Tensor:
    """Return 0, 1, … along a dimension, (1, size)."""
    return torch.arange(images.shape[dim], device=images.device)[None]


def _scaled_about(images: Tensor, center: Tensor, factor: Tensor) -> Tensor:
    return (images - center) * factor + center
