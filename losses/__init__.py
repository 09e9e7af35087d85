"""The losses: what the networks are trained to minimise."""

from collections.abc import Callable
from typing import Literal

from losses.adversarial import GanMode, ScaleReduction, generator_adversarial_loss
from losses.feature_matching import feature_matching
from losses.kl_divergence import kl_divergence
from losses.loss_inputs import GeneratorLoss
from losses.perceptual import vgg_loss
from losses.pixel import l1
from losses.segmentation import segmentation_loss


def _adversarial_loss(
    *, gan_mode: GanMode | Literal["segmentation"], over_scales: ScaleReduction, class_balance: bool = True
) -> GeneratorLoss:
    if gan_mode == "segmentation":
        return segmentation_loss(class_balance=class_balance)
    return generator_adversarial_loss(gan_mode=gan_mode, over_scales=over_scales)


# Each maker's keyword arguments are settings; the weight of a loss is the setting of its name in section `loss`.
GENERATOR_LOSSES: dict[str, Callable[..., GeneratorLoss]] = {
    "adversarial": _adversarial_loss,
    "feature_matching": lambda: feature_matching,
    "l1": lambda: l1,
    "vgg": vgg_loss,
    "kl_divergence": lambda: kl_divergence,
}
