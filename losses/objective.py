"""The weighted losses of the generator and of the discriminator, as named 0-d tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from losses.adversarial import AdversarialLoss
from losses.gradient_penalty import Discriminate, r1_penalty, wgan_gradient_penalty
from losses.loss_inputs import GeneratorLoss, LossInputs


@dataclass(frozen=True)
class GeneratorObjective:
    """Σ weight · loss.

    losses: by name. weights: one for each of them.
    """

    losses: Mapping[str, GeneratorLoss]
    weights: Mapping[str, float]

    def __call__(self, translation: LossInputs) -> dict[str, Tensor]:
        """Return the losses by name, unweighted, and their weighted sum as `total`."""
        terms = {name: loss(translation) for name, loss in self.losses.items()}
        weighted = [self.weights[name] * value for name, value in terms.items()]
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

    def __call__(
        self,
        fake_logits: Sequence[Tensor],
        real_logits: Sequence[Tensor],
        *,
        fake: Tensor,
        real: Tensor,
        discriminate: Discriminate,
    ) -> dict[str, Tensor]:
        """Return the losses by name, unweighted, and `total`.

        fake_logits, real_logits: (N, 1, H_s, W_s) of each scale.
        fake, real: (N, C, H, W) in [-1, 1]. discriminate: gives the logits of such images; the penalties call it.
        """
        terms = {
            "fake": self.adversarial.discriminator(fake_logits, is_real=False),
            "real": self.adversarial.discriminator(real_logits, is_real=True),
        }
        total = 0.5 * (terms["fake"] + terms["real"])
        if self.gradient_penalty:
            terms["gradient_penalty"] = wgan_gradient_penalty(discriminate, fake, real)
            total = total + self.gradient_penalty * terms["gradient_penalty"]
        if self.r1:
            terms["r1"] = r1_penalty(discriminate, real)
            total = total + self.r1 * terms["r1"]
        return {**terms, "total": total}
