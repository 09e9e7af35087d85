"""Registries of the losses that the networks minimize."""

import math
from numbers import Real

from losses.adversarial import (
    AdversarialLoss,
    Hinge,
    LeastSquares,
    Penalty,
    Vanilla,
    Wasserstein,
    r1_penalty,
    wgan_gradient_penalty,
)
from losses.distances import feature_matching, fine_chroma, kl_divergence, l1, ms_ssim, outside_mask
from losses.objective import GeneratorLoss, LossTerm, WeightedLoss
from losses.perceptual import PERCEPTUAL_LOSSES
from losses.segmentation import SegmentationLoss, labelmix
from utils.errors import ConfigError

# Keys are values of loss.gan_mode or names of weights in section `loss`. Arguments of the losses are settings.
ADVERSARIAL_LOSSES: dict[str, type[AdversarialLoss]] = {
    "lsgan": LeastSquares,
    "vanilla": Vanilla,
    "hinge": Hinge,
    "wgan": Wasserstein,
    "segmentation": SegmentationLoss,
}
PENALTIES: dict[str, Penalty] = {
    "gradient_penalty": Penalty(wgan_gradient_penalty, needs_pairs=True),
    "r1": Penalty(r1_penalty, every=16),
    "labelmix": Penalty(labelmix, needs_float32=False, needs_pairs=True, classifies_pixels=True, share=0.5),
}
GENERATOR_LOSSES: dict[str, LossTerm] = {
    "adversarial": LossTerm(lambda adversarial_loss: lambda made: adversarial_loss.generator_loss(*made.logits)),
    "feature_matching": LossTerm(lambda: feature_matching, needs_features=True),
    "l1": LossTerm(lambda: l1),
    "ms_ssim": LossTerm(lambda: ms_ssim),
    "fine_chroma": LossTerm(lambda: fine_chroma, channels=(1, 3)),
    "perceptual": LossTerm(
        lambda perceptual_network, activation_checkpointing: PERCEPTUAL_LOSSES[perceptual_network](
            activation_checkpointing=activation_checkpointing
        ),
        channels=(1, 3),
        least_side=lambda perceptual_network: PERCEPTUAL_LOSSES[perceptual_network].least_side,
    ),
    "outside_mask": LossTerm(lambda: outside_mask, needs_labels=True),
    "kl_divergence": LossTerm(lambda: kl_divergence),
}

REGISTERED_LOSSES: dict[str, WeightedLoss] = {}
"""Losses that `register_loss` added, with their weights."""


def register_loss(name: str, loss: GeneratorLoss, weight: float) -> None:
    """Add a generator loss to all later training runs of this process.

    An earlier loss of this name is replaced. With weight 0, it is only removed. A run moves modules to its device.

    Raises:
        ConfigError: The name or the weight cannot be used.
    """
    if not name.isidentifier() or name in (*GENERATOR_LOSSES, "mean_weight", "total"):
        raise ConfigError(f"loss {name!r}: not an identifier, or a reserved name. Choose another name.")
    if not (isinstance(weight, Real) and math.isfinite(weight) and weight >= 0):
        raise ConfigError(f"loss {name!r}: its weight is {weight!r}, expected a number of at least 0.")
    REGISTERED_LOSSES.pop(name, None)
    if weight:
        REGISTERED_LOSSES[name] = loss, float(weight)  # checkpoints cannot hold NumPy numbers


def registered_record() -> dict[str, dict[str, float]]:
    """Return {"registered_losses": weights by name} for a run's records; {} if no loss is registered."""
    return {"registered_losses": weights} if (weights := registered_weights()) else {}


def registered_weights() -> dict[str, float]:
    """Return the weights of REGISTERED_LOSSES by name."""
    return {name: weight for name, (_, weight) in REGISTERED_LOSSES.items()}
