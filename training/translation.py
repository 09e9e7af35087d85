"""The generator's pass in training, with or without a style encoder."""

from dataclasses import dataclass

from torch import Tensor, nn

from models.style_encoder import StyledImages, StyleDistribution


@dataclass(frozen=True)
class Translation:
    """Translated images (N, C, H, W) in [-1, 1], and the distributions of their styles where an encoder gives them."""

    fake: Tensor
    style: StyleDistribution | None = None


def translate(generator: nn.Module, inputs: tuple[Tensor, ...]) -> Translation:
    """Return the translation that a generator makes of its arguments."""
    made = generator(*inputs)
    return Translation(made.images, made.style) if isinstance(made, StyledImages) else Translation(made)
