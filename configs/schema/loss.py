"""Sections `loss`, `contrastive` and `cycle`: weights and settings of the losses."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from configs.schema.checks import MOST_FRACTION, Section, number, numbers, setting
from utils.errors import ConfigError
from utils.yaml_file import shortened

Data = Literal["any", "pairs", "no pairs"]


def weight(default: float, data: Data = "any", *, needs_style: bool = False) -> float:
    """Return a field for the weight of a generator loss. Name the field as in losses.GENERATOR_LOSSES.

    data: Training data that the loss needs. needs_style: Whether the loss needs style.channels.
    """
    return number(default, data=data, needs_style=needs_style)


def penalty(default: float) -> float:
    """Return a field for the weight of a discriminator penalty. Name the field as in losses.PENALTIES."""
    return number(default, is_penalty=True)


@dataclass(frozen=True)
class LossConfig(Section, prefix="loss."):
    """Weights and settings of the losses. A loss with weight 0 is not computed."""

    adversarial: float = weight(1.0)
    """Weight of the adversarial loss, which gan_mode chooses."""
    gan_mode: Literal["lsgan", "vanilla", "hinge", "wgan", "segmentation"] = "lsgan"
    """lsgan: squared error (pix2pixHD). vanilla: binary cross-entropy (pix2pix). hinge: hinge loss (SPADE). wgan: mean
    of the discriminator's outputs, for use with gradient_penalty. segmentation: cross-entropy of pixel classes (OASIS),
    only with discriminator.name=segmentation."""
    over_scales: Literal["sum", "mean"] = "sum"
    """How the adversarial losses of the discriminator's scales are combined: sum in pix2pixHD, mean in SPADE."""
    labelmix: float = penalty(0.0)
    """gan_mode=segmentation: weight of LabelMix in the discriminator's loss. LabelMix mixes a real and a translated
    image class by class. The discriminator's output for the mixed image must equal the same mix of its outputs for the
    two images. 10 in OASIS, 5 on Cityscapes."""
    gradient_penalty: float = penalty(0.0)
    """Weight of the WGAN gradient penalty in the discriminator's loss; 10 in the WGAN-GP paper."""
    r1: float = penalty(0.0)
    """Weight of the R1 penalty in the discriminator's loss. Every 16th step computes the penalty, with 16 times the
    weight."""
    feature_matching: float = weight(10.0, "pairs")
    """Weight of the L1 between the discriminator's features of the translated and the real image."""
    l1: float = weight(0.0, "pairs")
    """Weight of the mean absolute difference of pixels in [-1, 1]."""
    ms_ssim: float = weight(0.0, "pairs")
    """Weight of 1 - MS-SSIM, which compares structure at several scales. Use it with l1. It ignores pixel weights."""
    fine_chroma: float = weight(0.0, "pairs")
    """RGB images: weight of the mean absolute difference of fine colour detail. It reduces coloured fringes."""
    perceptual: float = weight(10.0, "pairs")
    """Weight of the distance between the translated and the real image in the features of perceptual_network."""
    perceptual_network: Literal["vgg19", "efficientnet_lite0"] = "vgg19"
    """vgg19: L1 of VGG19's features (pix2pixHD). Its weights (548 MB) are downloaded into torch's cache.
    efficientnet_lite0: squared distance of normalized features. Its weights are installed with the program."""
    class_weights: dict[str, float] = setting(
        {}, lambda weights: all(0 <= n <= MOST_FRACTION for n in weights.values()), "weights of at least 0"
    )
    """Label maps: pixel weights by class, for l1, fine_chroma, feature_matching, perceptual and some metrics. Give
    class ids or names, such as {car: 4, sky: 0}, or a list with the weights of classes 0, 1 and so on. Weight 0 ignores
    a class. Other classes have weight 1. The name `ignored` stands for pixels without a class. These weights are
    multiplied by the weights in data.weight_folder."""
    outside_mask: float = weight(0.0, "no pairs")
    """Without pairs: weight of the L1 between sources and their translations, outside the classes that may change. Give
    these classes the weight 0 in class_weights, such as {11: 0, 12: 0}. The label maps of the sources, in
    {split}_A_label, must hold ids."""
    shift_reach: int = number(0, most=16)
    """Largest displacement between a target and its source, in target pixels per direction. The losses compare each
    patch of a translation with the most similar part of the target within this distance. 0: the pairs are aligned."""
    shift_patch: int = number(16, least=4, most=128)
    """Side length of the patches that are shifted as a whole, in pixels."""
    shift_penalty: float = number(0.2)
    """Penalty for displacements. 0.2 means that each pixel of displacement raises a patch's difference by 20 %. The
    penalty falls from this value to 0 during the first half of the training."""
    kl_divergence: float = weight(0.05, "pairs", needs_style=True)
    """With style.channels: weight of the KL divergence between the encoded styles and N(0, 1), summed over samples and
    style channels as in SPADE. test.py draws styles from N(0, 1). With a lower weight, a style describes its image in
    more detail, but the styles that test.py draws resemble encoded styles less."""

    def __post_init__(self) -> None:
        super().__post_init__()
        expected = f"at least {2 * self.shift_reach}, twice loss.shift_reach: smaller patches match by chance"
        self.require(self.shift_patch >= 2 * self.shift_reach, "shift_patch", expected)

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the generator's losses by name."""
        return {item.name: getattr(self, item.name) for item in fields(self) if "data" in item.metadata}

    @property
    def penalties(self) -> dict[str, float]:
        """The weights of the discriminator's penalties by name."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.metadata.get("is_penalty")}

    @property
    def weights_of_images(self) -> dict[str, float]:
        """The weights of the generator's losses by name, without losses that need a style."""
        of_styles = {item.name for item in fields(self) if item.metadata.get("needs_style")}
        return {name: value for name, value in self.weights.items() if name not in of_styles}

    def weights_for(self, data: Data, *, has_style: bool) -> dict[str, float]:
        """Return the weights of the losses that are computed for training data of type `data`, by name."""
        weights = self.weights if has_style else self.weights_of_images
        possible = {item.name for item in fields(self) if item.metadata.get("data") in ("any", data)}
        return {name: value for name, value in weights.items() if value and name in possible}


@dataclass(frozen=True)
class ContrastiveConfig(Section, prefix="contrastive."):
    """method.name=contrastive: each patch of a translation must resemble the patch at the same place in the source
    (CUT)."""

    weight: float = number(1.0)
    """Weight of the loss, in addition to loss.adversarial; 1 in CUT, 10 in FastCUT."""
    n_patches: int = number(256, least=1)
    """Number of random patches per image that each step compares in each compared layer of the generator."""
    channels: int = number(256, least=1)
    """Length of the compared feature vectors, and width of the projection network that computes them."""
    identity: bool = True
    """Also translate target images, whose patches must not change. true in CUT, false in FastCUT."""
    flip_equivariance: bool = False
    """Mirror the sources in half of the steps. false in CUT, true in FastCUT."""


@dataclass(frozen=True)
class CycleConfig(Section, prefix="cycle."):
    """method.name=cycle: an image that is translated to the other domain and back must be unchanged (CycleGAN)."""

    weights: list[float] = numbers("[of A,of B]", [10.0, 10.0], least=0, most=MOST_FRACTION)
    """Weights of the mean absolute difference between an image and its translation there and back. The first weight is
    for images of A, the second for images of B."""
    identity: float = number(0.5)
    """Weight of the identity loss, relative to cycle.weights. It teaches a generator to leave images of its target
    domain unchanged, which keeps colours. 0: off, which saves two passes and allows domains with different channels."""


def read_class_weights(value: object, key: str) -> object:
    """Return the weights by class name or id. A list has the weights of the classes 0, 1, …; null is an empty mapping.

    Raises:
        ConfigError: `value` is neither a list nor a mapping, or a weight is not a number.
    """
    weights = dict(enumerate(value)) if isinstance(value, list) else {} if value is None else value
    expected = "weights of classes such as {car: 4, sky: 0}, or a list with a weight for each class"
    if not isinstance(weights, Mapping):
        raise ConfigError(f"{key} is {shortened(value)}, expected {expected}")
    for name, weight in weights.items():
        try:
            float(weight)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"{key}: {shortened(name)} has {shortened(weight)}, expected a number") from error
    return {str(name): float(weight) for name, weight in weights.items()}
