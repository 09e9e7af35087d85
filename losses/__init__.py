"""The losses: what the networks are trained to minimise."""

from collections.abc import Callable
from typing import Literal

from losses.adversarial import AdversarialLoss, GanMode, ScaleReduction
from losses.distances import feature_matching, kl_divergence, l1
from losses.objective import GeneratorLoss
from losses.perceptual import vgg_loss
from losses.segmentation import SegmentationLoss


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
    "vgg": vgg_loss,
    "kl_divergence": lambda: kl_divergence,
}
