"""The losses: what the networks are trained to minimise."""

import math
from collections.abc import Callable
from numbers import Real
from typing import Literal

from losses.adversarial import AdversarialLoss, GanMode, ScaleReduction
from losses.distances import feature_matching, kl_divergence, l1, ms_ssim
from losses.objective import GeneratorLoss
from losses.perceptual import vgg_loss
from losses.segmentation import SegmentationLoss
from utils.errors import ConfigError


def _adversarial_loss(
    *, gan_mode: GanMode | Literal["segmentation"], over_scales: ScaleReduction, class_balance: bool = True
) -> GeneratorLoss:
    if gan_mode == "segmentation":
        of_classes = SegmentationLoss(class_balance)
        return lambda translation: of_classes.real(translation.fake_outputs[0].logits, translation.source)
    adversarial = AdversarialLoss(gan_mode, over_scales)
    return lambda translation: adversarial.generator([scale.logits for scale in translation.fake_outputs])


# Each maker's keyword arguments are settings; the weight of a loss is the setting of its name in section `loss`.
GENERATOR_LOSSES: dict[str, Callable[..., GeneratorLoss]] = {
    "adversarial": _adversarial_loss,
    "feature_matching": lambda: feature_matching,
    "l1": lambda: l1,
    "ms_ssim": lambda: ms_ssim,
    "vgg": vgg_loss,
    "kl_divergence": lambda: kl_divergence,
}

REGISTERED_LOSSES: dict[str, tuple[GeneratorLoss, float]] = {}
"""The losses of the program that calls `train`, with their weights; see `register_loss`."""


def register_loss(name: str, loss: GeneratorLoss, weight: float) -> None:
    """Add a loss of the generator to the trainings on pairs that this process begins from now on.

    A loss of the same name is replaced; a weight of 0 removes it. An `nn.Module` is moved to the device of the run.

    Raises:
        ConfigError: the name or the weight cannot be used.
    """
    if not name.isidentifier() or name in (*GENERATOR_LOSSES, "mean_weight", "total"):
        raise ConfigError(f"loss {name!r}: is no name, or that of another loss. Choose another word.")
    if not (isinstance(weight, Real) and math.isfinite(weight) and weight >= 0):
        raise ConfigError(f"loss {name!r}: its weight is {weight!r}, expected a number of at least 0.")
    REGISTERED_LOSSES.pop(name, None)
    if weight:
        REGISTERED_LOSSES[name] = loss, float(weight)  # not a number of NumPy, which no checkpoint can hold


def registered_record() -> dict[str, dict[str, float]]:
    """Return `registered_losses` with their weights, for the records of a run; nothing where none is registered."""
    return {"registered_losses": weights} if (weights := registered_weights()) else {}


def registered_weights() -> dict[str, float]:
    """Return the weights of REGISTERED_LOSSES by name."""
    return {name: weight for name, (_, weight) in REGISTERED_LOSSES.items()}
