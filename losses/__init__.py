"""The losses: what the networks are trained to minimise."""

from collections.abc import Callable

from losses.adversarial import generator_adversarial_loss
from losses.feature_matching import feature_matching
from losses.loss_inputs import GeneratorLoss
from losses.perceptual import vgg_loss
from losses.pixel import l1

# Each maker's keyword arguments are settings; the weight of a loss is the setting of its name in section `loss`.
GENERATOR_LOSSES: dict[str, Callable[..., GeneratorLoss]] = {
    "adversarial": generator_adversarial_loss,
    "feature_matching": lambda: feature_matching,
    "l1": lambda: l1,
    "vgg": vgg_loss,
}
