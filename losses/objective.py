"""The inputs of the losses of both networks, and their weighted sums, as named 0-d tensors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from losses.adversarial import AdversarialLoss, r1_penalty, wgan_gradient_penalty
from losses.pixel_weights import LossWeights
from utils.errors import ConfigError


class ScaleOutput(Protocol):
    """The output of the discriminator at one scale."""

    @property
    def features(self) -> Sequence[Tensor]:
        """The activations of its layers, (N, C_l, H_l, W_l) each."""
        ...

    @property
    def logits(self) -> Tensor:
        """(N, 1, H_s, W_s), or (N, 1 + K, H, W) of a segmentation, unbounded."""
        ...


Discriminate = Callable[[], Sequence[ScaleOutput]]


@dataclass(frozen=True)
class LossInputs:
    """Translated images, their targets, and the discriminator's outputs for both.

    fake, target: (N, C, H, W) in [-1, 1].
    source: (N, C', H, W), the condition as the discriminator sees it.
    discriminate_fake, discriminate_target: compute the discriminator's outputs when the first loss reads them, so that
        an update without such a loss does without the passes.
    style: means and log variances, (N, style_channels) each, of the normal distributions from which the styles of the
        translated images were drawn; None without a style encoder.
    weights: the weights of the pixels in the distances of images and of features; None where all weigh the same.
    """

    fake: Tensor
    target: Tensor
    source: Tensor
    discriminate_fake: Discriminate
    discriminate_target: Discriminate
    style: tuple[Tensor, Tensor] | None = None
    weights: LossWeights | None = None

    @cached_property
    def fake_outputs(self) -> Sequence[ScaleOutput]:
        """The outputs for the translated images, one for each scale; gradients reach the generator through them."""
        return self.discriminate_fake()

    @cached_property
    def target_outputs(self) -> Sequence[ScaleOutput]:
        """The outputs for the targets, one for each scale; a loss detaches what it reads of them."""
        return self.discriminate_target()


GeneratorLoss = Callable[[LossInputs], Tensor]
"""Maps a translation to a 0-d tensor, float32 under autocast."""


@dataclass(frozen=True)
class DiscriminatorLossInputs:
    """The discriminator's logits for translated and real images, and more of its passes for losses that make them.

    fake_logits, real_logits: (N, 1, H_s, W_s) of each scale, or (N, 1 + K, H, W) of a segmentation.
    source: (N, C, H, W), the condition of the real images as the discriminator sees it.
    fake, real: (N, C, H, W) in [-1, 1], not augmented.
    discriminate: gives the logits of such images, in float32; the penalties call it.
    discriminate_mix: gives the logits of images that are the real one where a mask (N, 1, H, W) bool is True, and the
        translated one elsewhere.
    """

    fake_logits: Sequence[Tensor]
    real_logits: Sequence[Tensor]
    source: Tensor
    fake: Tensor
    real: Tensor
    discriminate: Callable[[Tensor], Sequence[Tensor]]
    discriminate_mix: Callable[[Tensor], Sequence[Tensor]]


DiscriminatorLosses = Callable[[DiscriminatorLossInputs], dict[str, Tensor]]
"""Maps them to the losses by name, 0-d, float32 under autocast, and their `total`."""


@dataclass(frozen=True)
class GeneratorObjective:
    """Σ weight · loss.

    losses: by name. weights: one for each of them.
    """

    losses: Mapping[str, GeneratorLoss]
    weights: Mapping[str, float]

    def __call__(self, translation: LossInputs) -> dict[str, Tensor]:
        """Return the losses by name, unweighted, and their weighted sum as `total`.

        Where pixels have weights, also their mean, `mean_weight`. Raises ConfigError where a loss is no 0-d tensor.
        """
        terms = {name: _checked(name, loss(translation)) for name, loss in self.losses.items()}
        weighted = [self.weights[name] * value for name, value in terms.items()]
        if translation.weights:
            terms["mean_weight"] = translation.weights.of_images.mean_weight
        return {**terms, "total": torch.stack(weighted).sum()}


def _checked(name: str, value: object) -> Tensor:
    if isinstance(value, Tensor) and value.dim() == 0:
        return value
    found = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
    raise ConfigError(f"loss {name!r}: returned {found}, not a 0-d tensor: use .mean(), without .item()")


@dataclass(frozen=True)
class DiscriminatorObjective:
    """Half the sum of the losses on translated and real images (both originals), and penalties by their weights.

    gradient_penalty: weight of the WGAN gradient penalty; 10 in its paper.
    r1: weight of the R1 penalty.
    """

    adversarial: AdversarialLoss
    gradient_penalty: float = 0.0
    r1: float = 0.0

    def __call__(self, inputs: DiscriminatorLossInputs) -> dict[str, Tensor]:
        """Return the losses by name, unweighted, and `total`."""
        terms = {
            "fake": self.adversarial.discriminator(inputs.fake_logits, is_real=False),
            "real": self.adversarial.discriminator(inputs.real_logits, is_real=True),
        }
        total = 0.5 * (terms["fake"] + terms["real"])
        if self.gradient_penalty:
            terms["gradient_penalty"] = wgan_gradient_penalty(inputs.discriminate, inputs.fake, inputs.real)
            total = total + self.gradient_penalty * terms["gradient_penalty"]
        if self.r1:
            terms["r1"] = r1_penalty(inputs.discriminate, inputs.real)
            total = total + self.r1 * terms["r1"]
        return {**terms, "total": total}
