"""The weighted sums of losses that the two networks minimize, as 0-d tensors by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from losses.adversarial import AdversarialLoss, Logits, Outputs, Penalty, PenaltyInputs
from utils.errors import ConfigError

Discriminate = Callable[[], Outputs]

_LEAST_SUM = torch.finfo(torch.float32).tiny  # the mean with weights of 0 is then 0 and not NaN


@dataclass(frozen=True)
class PixelWeights:
    """Weights of the pixels of a batch, (N, 1, H, W) float32 of at least 0; resized by area for features.

    Means are divided by the sum of the weights over the batch, as in torch's weighted cross entropy. So ignored pixels
    do not change the balance with the adversarial loss.
    """

    weights: Tensor

    @property
    def mean_weight(self) -> Tensor:
        """Mean of the weights, 0-d."""
        return self.weights.mean()

    def mean(self, values: Tensor) -> Tensor:
        """Return the weighted mean of (N, C, h, w) values, 0-d, in float32 or finer; 0 if all weights are 0."""
        dtype = torch.promote_types(values.dtype, torch.float32)
        n_channels, height, width = values.shape[1:]
        weights = F.adaptive_avg_pool2d(self.weights, (height, width))
        shares = weights / weights.sum().clamp_min(_LEAST_SUM)
        return (values.sum(dim=1, keepdim=True, dtype=dtype) * shares).sum() / n_channels


@dataclass(frozen=True)
class LossWeights:
    """The weights for images, and for images that are augmented for the discriminator."""

    of_images: PixelWeights
    of_discriminated: PixelWeights

    @classmethod
    def of(cls, weights: Tensor | None, move: Callable[[Tensor], Tensor]) -> Self | None:
        """Return the weights (N, 1, H, W) float32 and `move(weights)`; None for None."""
        return None if weights is None else cls(PixelWeights(weights), PixelWeights(move(weights)))


@dataclass(frozen=True)
class LossInputs:
    """Translated images, what they are compared with, and the discriminator's outputs for both.

    fake: (N, C, H, W) in [-1, 1], in the orientation of the source.
    target: (N, C, H, W) in [-1, 1]. Without pairs these are real images that do not belong to the sources.
    source: (N, C', H, W), the condition as the discriminator sees it, or the source image without pairs.
    discriminate_fake, discriminate_target: Compute the discriminator's outputs when a loss first reads them.
    style: Means and log variances of the styles, (N, style_channels) each; None without a style encoder.
    weights: Weights of the pixels in the distances of images and of features; None if all weigh the same.
    outside: Weights of the pixels that a translation without pairs must keep.
    """

    fake: Tensor
    target: Tensor
    source: Tensor
    discriminate_fake: Discriminate
    discriminate_target: Discriminate
    style: tuple[Tensor, Tensor] | None = None
    weights: LossWeights | None = None
    outside: PixelWeights | None = None

    @cached_property
    def fake_outputs(self) -> Outputs:
        """The outputs for the translated images, one for each scale; gradients reach the generator through them."""
        return self.discriminate_fake()

    @cached_property
    def target_outputs(self) -> Outputs:
        """The outputs for the targets, one for each scale; a loss detaches what it reads of them."""
        return self.discriminate_target()

    @property
    def logits(self) -> tuple[Logits, Logits]:
        """The logits for the translated images and for the targets."""
        return Logits(lambda: self.fake_outputs, self.source), Logits(lambda: self.target_outputs, self.source)


GeneratorLoss = Callable[[LossInputs], Tensor]
"""Maps a translation to a 0-d tensor, float32 under autocast."""

WeightedLoss = tuple[GeneratorLoss, float]


@dataclass(frozen=True)
class LossTerm:
    """A loss of the generator. Its weight is the setting of its name in section `loss`.

    make: Returns the loss. Its keyword arguments are settings, and `adversarial_loss` is the loss of loss.gan_mode.
    needs_features: Whether it compares features of the discriminator.
    needs_labels: Whether it needs label maps of sources that are images.
    channels: Numbers of channels that an image may have.
    least_side: Returns the shortest side of an image, in pixels. Its arguments are settings too.
    """

    make: Callable[..., GeneratorLoss]
    needs_features: bool = False
    needs_labels: bool = False
    channels: tuple[int, ...] | None = None
    least_side: Callable[..., int] = lambda: 1


@dataclass(frozen=True)
class GeneratorObjective:
    """Σ weight · loss over `losses`, which are losses and weights by name."""

    losses: Mapping[str, WeightedLoss]

    def __call__(self, translation: LossInputs, own: Mapping[str, WeightedLoss] | None = None) -> dict[str, Tensor]:
        """Return the unweighted losses by name, their weighted sum as `total`, and the `mean_weight` of pixels if any.

        own: Losses of the training method. They follow the first loss, which is the adversarial one.

        Raises:
            ConfigError: A loss is no 0-d tensor.
        """
        first = dict(list(self.losses.items())[:1])
        losses = {**first, **(own or {}), **self.losses}
        terms = {name: _checked(name, loss(translation)) for name, (loss, _) in losses.items()}
        weighted = [losses[name][1] * value for name, value in terms.items()]
        if translation.weights:
            terms["mean_weight"] = translation.weights.of_images.mean_weight
        return {**terms, "total": torch.stack(weighted).sum()}


def _checked(name: str, value: object) -> Tensor:
    if isinstance(value, Tensor) and value.dim() == 0:
        return value
    found = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
    raise ConfigError(f"loss {name!r}: returned {found}, not a 0-d tensor: use .mean(), without .item()")


@dataclass
class DiscriminatorObjective:
    """The adversarial loss of the discriminator, and penalties with their weights by name.

    step: Number of the training step, from 0. None: compute all penalties, each with its plain weight.
    """

    adversarial: AdversarialLoss
    penalties: Mapping[str, tuple[Penalty, float]]
    step: int | None = None

    @property
    def due(self) -> tuple[str, ...]:
        """The names of the penalties that this step computes."""
        return tuple(
            name for name, (one, _) in self.penalties.items() if self.step is None or self.step % one.every == 0
        )

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
