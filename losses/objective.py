"""Objectives of generator and discriminator: weighted sums of losses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from losses.adversarial import AdversarialLoss, Logits, Outputs, Penalty, PenaltyInputs
from utils.errors import ConfigError

_LEAST_SUM = torch.finfo(torch.float32).tiny  # divisor if all weights are 0, so that the mean is 0 instead of NaN


@dataclass(frozen=True)
class PixelWeights:
    """Pixel weights of a batch, (N, 1, H, W) float32 of at least 0. For smaller feature maps, weights are averaged.

    As in torch's weighted cross-entropy, weighted sums are divided by the sum of the weights. Ignored pixels therefore
    do not change the balance with the adversarial loss.
    """

    weights: Tensor

    def mean(self, values: Tensor) -> Tensor:
        """Return the weighted mean of (N, C, h, w) values, 0-d, in float32 or finer; 0 if all weights are 0."""
        dtype = torch.promote_types(values.dtype, torch.float32)
        n_channels, height, width = values.shape[1:]
        weights = F.adaptive_avg_pool2d(self.weights, (height, width))
        shares = weights / weights.sum().clamp_min(_LEAST_SUM)
        return (values.sum(dim=1, keepdim=True, dtype=dtype) * shares).sum() / n_channels


@dataclass(frozen=True)
class LossWeights:
    """Pixel weights for translated images, and for the augmented images that the discriminator sees."""

    of_images: PixelWeights
    of_discriminated: PixelWeights

    @classmethod
    def of(cls, weights: Tensor | None, move: Callable[[Tensor], Tensor]) -> Self | None:
        """Return `weights`, (N, 1, H, W) float32, and `move(weights)` for augmented images. Return None for None."""
        return None if weights is None else cls(PixelWeights(weights), PixelWeights(move(weights)))


@dataclass(frozen=True)
class LossInputs:
    """Inputs of the generator's losses: images, weights and the discriminator's outputs.

    fake: Translated images, (N, C, H, W) in [-1, 1], in the orientation of the source.
    target: Real images, (N, C, H, W) in [-1, 1]. Without pairs, they are unrelated to the sources.
    source: Sources as the discriminator sees them, (N, C', H, W). Without pairs they are images.
    discriminate_fake, discriminate_target: Functions that return the discriminator's outputs. Call each only once.
    style: Means and log variances of the styles, (N, style_channels) each; None without a style encoder.
    weights: Pixel weights for distances of images and of features; None for equal weights.
    outside: Weights of the pixels that translations must not change, if there are no pairs.
    """

    fake: Tensor
    target: Tensor
    source: Tensor
    discriminate_fake: Callable[[], Outputs]
    discriminate_target: Callable[[], Outputs]
    style: tuple[Tensor, Tensor] | None = None
    weights: LossWeights | None = None
    outside: PixelWeights | None = None

    @cached_property
    def fake_outputs(self) -> Outputs:
        """The outputs for the translated images, one per scale. Gradients reach the generator through them."""
        return self.discriminate_fake()

    @cached_property
    def target_outputs(self) -> Outputs:
        """The outputs for the targets, one per scale. Losses must detach them."""
        return self.discriminate_target()

    @property
    def logits(self) -> tuple[Logits, Logits]:
        """The logits for the translated images and for the targets."""
        return Logits(lambda: self.fake_outputs, self.source), Logits(lambda: self.target_outputs, self.source)


GeneratorLoss = Callable[[LossInputs], Tensor]
"""Function that returns a loss, 0-d, float32 under autocast."""

WeightedLoss = tuple[GeneratorLoss, float]


@dataclass(frozen=True)
class LossTerm:
    """A loss of the generator. The setting loss.NAME is the weight of loss NAME.

    make: Function that returns the loss. Its arguments are settings, or the `adversarial_loss` of loss.gan_mode.
    needs_features: Whether the loss compares features of the discriminator.
    needs_labels: Whether the loss needs label maps of source images.
    channels: Possible numbers of image channels; None for any number.
    least_side: Function that returns the least height and width of images, in pixels. Its arguments are settings.
    """

    make: Callable[..., GeneratorLoss]
    needs_features: bool = False
    needs_labels: bool = False
    channels: tuple[int, ...] | None = None
    least_side: Callable[..., int] = lambda: 1


@dataclass(frozen=True)
class GeneratorObjective:
    """The weighted sum of the generator's losses. losses: Losses with their weights, by name."""

    losses: Mapping[str, WeightedLoss]

    def __call__(self, translation: LossInputs, own: Mapping[str, WeightedLoss] | None = None) -> dict[str, Tensor]:
        """Return the unweighted losses by name, the weighted sum `total`, and `mean_weight` if pixels have weights.

        own: Losses of the training method. They are inserted after the first loss, the adversarial loss.

        Raises:
            ConfigError: A loss is not a 0-d tensor.
        """
        first = dict(list(self.losses.items())[:1])
        losses = {**first, **(own or {}), **self.losses}
        terms = {name: _checked(name, loss(translation)) for name, (loss, _) in losses.items()}
        weighted = [losses[name][1] * value for name, value in terms.items()]
        if translation.weights:
            terms["mean_weight"] = translation.weights.of_images.weights.mean()
        return {**terms, "total": torch.stack(weighted).sum()}


def _checked(name: str, value: object) -> Tensor:
    if isinstance(value, Tensor) and value.dim() == 0:
        return value
    found = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
    raise ConfigError(f"loss {name!r}: returned {found}, not a 0-d tensor. Use .mean(), and no .item()")


@dataclass
class DiscriminatorObjective:
    """The adversarial loss of the discriminator, and penalties with their weights by name.

    step: Number of the training step, from 0. None: compute all penalties, without the factor `Penalty.every`.
    """

    adversarial: AdversarialLoss
    penalties: Mapping[str, tuple[Penalty, float]]
    step: int | None = None

    @property
    def due(self) -> tuple[str, ...]:
        """The names of the penalties that this step computes."""
        return tuple(name for name, (one, _) in self.penalties.items() if not self.step or self.step % one.every == 0)

    def __call__(self, inputs: PenaltyInputs) -> dict[str, Tensor]:
        """Return the unweighted losses by name, and `total`."""
        terms = self.adversarial.discriminator_loss(inputs.real_logits, inputs.fake_logits)
        total = terms.pop("total")
        for name in self.due:
            penalty, weight = self.penalties[name]
            factor = penalty.share * (1 if self.step is None else penalty.every)
            terms[name] = penalty.compute(inputs)
            total = total + factor * weight * terms[name]
        return {**terms, "total": total}
