"""The weighted losses of the generator and of the discriminator, as named 0-d tensors."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from losses.adversarial import AdversarialLoss, r1_penalty, wgan_gradient_penalty
from losses.loss_inputs import DiscriminatorLossInputs, GeneratorLoss, LossInputs


@dataclass(frozen=True)
class GeneratorObjective:
    """Σ weight · loss.

    losses: by name. weights: one for each of them.
    """

    losses: Mapping[str, GeneratorLoss]
    weights: Mapping[str, float]

    def __call__(self, translation: LossInputs) -> dict[str, Tensor]:
        """Return the losses by name, unweighted, and their weighted sum as `total`.

        Where pixels have weights, also their mean, `mean_weight`.
        """
        terms = {name: loss(translation) for name, loss in self.losses.items()}
        weighted = [self.weights[name] * value for name, value in terms.items()]
        if translation.weights:
            terms["mean_weight"] = translation.weights.of_images.mean_weight
        return {**terms, "total": torch.stack(weighted).sum()}


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
