"""The weighted terms of the generator and of the discriminator, as named 0-d tensors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from losses.adversarial import AdversarialLoss
from losses.feature_matching import feature_matching
from losses.gradient_penalty import Judge, r1_penalty, wgan_gradient_penalty
from losses.perceptual import PerceptualLoss


@dataclass(frozen=True)
class Translation:
    """What the generator's terms look at.

    fake, target: (N, 3, H, W) in [-1, 1].
    fake_logits: for each scale (N, 1, H_s, W_s).
    fake_features, real_features: for each scale and layer (N, C_l, H_l, W_l).
    names: of the targets.
    """

    fake: Tensor
    target: Tensor
    fake_logits: Sequence[Tensor]
    fake_features: Sequence[Sequence[Tensor]]
    real_features: Sequence[Sequence[Tensor]]
    names: Sequence[str] = ()


Term = Callable[[Translation], Tensor]


class GeneratorObjective:
    """Σ weight * term over the terms whose weight is not 0; the others are not computed."""

    def __init__(
        self, weights: Mapping[str, float], *, adversarial: AdversarialLoss, perceptual: PerceptualLoss | None
    ) -> None:
        """`weights` by the names of the terms, the keys of `loss:`; `perceptual` where that of vgg is not 0."""
        terms: dict[str, Term] = {
            "adversarial": lambda x: adversarial.generator(x.fake_logits),
            "feature_matching": lambda x: feature_matching(x.fake_features, x.real_features),
            "l1": lambda x: F.l1_loss(x.fake, x.target),
        }
        if perceptual is not None:
            terms["vgg"] = lambda x: perceptual(x.fake, x.target, x.names)
        self.weights = {name: weight for name, weight in weights.items() if weight != 0}
        self._terms = {name: terms[name] for name in self.weights}

    def needs(self, name: str) -> bool:
        """Whether a term is computed."""
        return name in self._terms

    def __call__(self, translation: Translation) -> dict[str, Tensor]:
        """The terms by name, unweighted, and their weighted sum as `total`."""
        terms = {name: term(translation) for name, term in self._terms.items()}
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
        self, fake_logits: Sequence[Tensor], real_logits: Sequence[Tensor], judge: Judge, fake: Tensor, real: Tensor
    ) -> dict[str, Tensor]:
        """The terms by name, unweighted, and `total`; `judge` gives the logits of images (N, 3, H, W) for penalties."""
        terms = {
            "fake": self.adversarial.discriminator(fake_logits, is_real=False),
            "real": self.adversarial.discriminator(real_logits, is_real=True),
        }
        total = 0.5 * (terms["fake"] + terms["real"])
        if self.gradient_penalty:
            terms["gradient_penalty"] = wgan_gradient_penalty(judge, fake, real)
            total = total + self.gradient_penalty * terms["gradient_penalty"]
        if self.r1:
            terms["r1"] = r1_penalty(judge, real)
            total = total + self.r1 * terms["r1"]
        return {**terms, "total": total}
