"""The float tensors of a training pass: its inputs, made of a batch just before it, and the images of the generator."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from data.batch import Batch
from data.conditioning import Conditioning
from models.style_encoder import StyledImages, StyleDistribution


@dataclass(frozen=True)
class ModelInputs:
    """The float tensors of one pass of pairs.

    source: (N, C, H, W) float32, the condition that the discriminator sees, of the target's size.
    target: (N, 3 or 1, H, W) float32 in [-1, 1].
    generator_inputs: the arguments of the generator: the source, and instance features or what they are encoded from,
        or the image whose style is encoded.
    weights: (N, 1, H, W) float32, of the target's pixels; None where all weigh the same.
    """

    source: Tensor
    target: Tensor
    generator_inputs: tuple[Tensor, ...]
    weights: Tensor | None = None


class Passes(Protocol):
    """The passes of one update, whose gradients are averaged; an update may iterate over them twice."""

    def __iter__(self) -> Iterator[ModelInputs]: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True)
class ConditionedPasses:
    """The passes of one update; the float tensors of a pass are made when it comes, and live as long as it does."""

    batches: Sequence[Batch]
    conditioning: Conditioning

    def __iter__(self) -> Iterator[ModelInputs]:
        return (model_inputs(batch, self.conditioning) for batch in self.batches)

    def __len__(self) -> int:
        return len(self.batches)


def model_inputs(batch: Batch, conditioning: Conditioning) -> ModelInputs:
    """Return the float tensors that a batch of uint8 maps and ids stands for, on the batch's device."""
    source = conditioning(batch)
    return ModelInputs(
        source=conditioning.of_discriminator(source),
        target=conditioning.target(batch),
        generator_inputs=conditioning.training_inputs(batch, source),
        weights=conditioning.weights(batch),
    )


@dataclass(frozen=True)
class TranslatedImages:
    """Translated images (N, C, H, W) in [-1, 1], and the distributions of their styles where an encoder gives them."""

    fake: Tensor
    style: StyleDistribution | None = None


def translate(generator: nn.Module, inputs: tuple[Tensor, ...]) -> TranslatedImages:
    """Return the translation that a generator makes of its arguments."""
    made = generator(*inputs)
    return TranslatedImages(made.images, made.style) if isinstance(made, StyledImages) else TranslatedImages(made)
