"""The weighted terms of the generator and of the discriminator, as named 0-d tensors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from losses.adversarial import lsgan
from losses.feature_matching import feature_matching
from losses.perceptual import PerceptualLoss


@dataclass(frozen=True)
class Translation:
    """What the generator's terms look at.

    fake, target: (N, 3, H, W) in [-1, 1].
    fake_logits: for each scale (N, 1, H_s, W_s).
    fake_features, real_features: for each scale and layer (N, C_l, H_l, W_l).
    """

    fake: Tensor
    target: Tensor
    fake_logits: Sequence[Tensor]
    fake_features: Sequence[Sequence[Tensor]]
    real_features: Sequence[Sequence[Tensor]]


Term = Callable[[Translation], Tensor]

# The names are the keys of `loss:` in the configuration. `vgg` joins them where its network is given.
GENERATOR_LOSSES: dict[str, Term] = {
    "adversarial": lambda x: lsgan(x.fake_logits, is_real=True),
    "feature_matching": lambda x: feature_matching(x.fake_features, x.real_features),
    "l1": lambda x: F.l1_loss(x.fake, x.target),
}


class GeneratorObjective:
    """Σ weight * term over the terms whose weight is not 0; the others are not computed."""

    def __init__(self, weights: Mapping[str, float], perceptual: PerceptualLoss | None) -> None:
        """`weights` by the names of GENERATOR_LOSSES and `vgg`; `perceptual` where the weight of vgg is not 0."""
        terms = dict(GENERATOR_LOSSES)
        if perceptual is not None:
            terms["vgg"] = lambda x: perceptual(x.fake, x.target)
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


def discriminator_terms(fake_logits: Sequence[Tensor], real_logits: Sequence[Tensor]) -> dict[str, Tensor]:
    """The discriminator's terms `fake` and `real`, and as `total` half their sum (pix2pixHD)."""
    fake = lsgan(fake_logits, is_real=False)
    real = lsgan(real_logits, is_real=True)
    return {"fake": fake, "real": real, "total": 0.5 * (fake + real)}
