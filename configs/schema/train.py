"""How the networks learn: sections `method`, `train`, `optimizer`, `amp` and `augmentation`."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from configs.schema.checks import Section, number, setting
from configs.schema.loss import Data
from utils.errors import ConfigError

AUGMENTATIONS = ("color", "translation", "cutout")


@dataclass(frozen=True)
class MethodDeclaration:
    """Facts about a method, for configuration and inference; its code is in `training/methods`.

    translators: Names of the networks that translate, by direction, the default direction first.
    networks: Names of all trained networks.
    pairs: Whether it learns from pairs. Discriminators then see the source next to the image.
    unused: Settings, or sections, that must keep their defaults.
    metrics: Metrics that are always computed, in addition to metrics.extra.
    compares_features: Whether a loss compares features of the generator's layers, also features before norms.
    original: The program whose method it is, if any.
    """

    translators: Mapping[str, str]
    networks: tuple[str, ...] = ("generator", "discriminator")
    pairs: bool = False
    unused: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    compares_features: bool = False
    original: Literal["CycleGAN", "CUT"] | None = None

    @property
    def data(self) -> Data:
        """The training data of the method."""
        return "pairs" if self.pairs else "no pairs"


_OF_PAIRS = (
    *("data.n_classes", "data.label_colors", "data.instance_edges", "data.weight_folder"),
    *("data.quarter_turns", "data.rotation_degrees", "data.zoom", "data.elastic"),
    *("features", "style", "generator.scale", "metrics.label_colors"),
    *("train.retain_graph", "train.freeze_global_epochs", "loss.shift_reach", "metrics.shift_reach"),
)

METHODS: dict[str, MethodDeclaration] = {
    "paired": MethodDeclaration(translators={"AtoB": "generator"}, pairs=True),
    "contrastive": MethodDeclaration(
        translators={"AtoB": "generator"},
        networks=("generator", "discriminator", "projection"),
        unused=(*_OF_PAIRS, "train.pool_size"),
        metrics=("swd",),
        compares_features=True,
        original="CUT",
    ),
    "cycle": MethodDeclaration(
        translators={"AtoB": "generator_AtoB", "BtoA": "generator_BtoA"},
        networks=("generator_AtoB", "generator_BtoA", "discriminator_A", "discriminator_B"),
        unused=(*_OF_PAIRS, "train.discriminator_steps"),
        metrics=("swd",),
        original="CycleGAN",
    ),
}
"""By name, as in `training/methods`."""


@dataclass(frozen=True)
class MethodConfig:
    """How the networks are trained."""

    name: Literal["paired", "contrastive", "cycle"] = "paired"
    """paired: from pairs, with a generator and a discriminator that sees source and target (pix2pixHD, SPADE, OASIS).
    contrastive: without pairs, in one direction; patches of a translation resemble the source (CUT, FastCUT). cycle:
    without pairs, in both directions, with two generators and two discriminators (CycleGAN)."""

    @property
    def declaration(self) -> MethodDeclaration:
        """Return the declaration of the method."""
        return METHODS[self.name]

    @property
    def translators(self) -> Mapping[str, str]:
        """The names of the networks that translate, by direction, the default one first."""
        return self.declaration.translators

    @property
    def default_direction(self) -> str:
        """The first direction of `translators`."""
        return next(iter(self.translators))

    def translator(self, direction: str | None = None) -> str:
        """Return the name of the network that translates in a direction, by default in the default direction.

        Raises:
            ConfigError: the method trains no translator for it.
        """
        chosen = direction or self.default_direction
        if chosen not in self.translators:
            remedy = f"Leave --direction out, or train another run with data.direction={chosen}"
            known = ", ".join(self.translators)
            raise ConfigError(f"direction {chosen}: method.name={self.name} trains {known}. {remedy}.")
        return self.translators[chosen]

    def discriminator(self, direction: str | None = None) -> str:
        """Return the name of the network that judges the translations of a direction."""
        target = (direction or self.default_direction)[-1]
        return f"discriminator_{target}" if len(self.translators) > 1 else "discriminator"

    def direction_of(self, network: str | None) -> str | None:
        """Return the direction of a translator or a discriminator by its name; None for other networks."""
        networks = {way: (name, self.discriminator(way)) for way, name in self.translators.items()}
        return next((way for way, names in networks.items() if network in names), None)


def _is_expression(text: str | None) -> bool:
    try:
        return text is None or bool(text and re.compile(text))
    except (re.error, OverflowError, RecursionError):
        return False


@dataclass(frozen=True)
class TrainConfig(Section, prefix="train."):
    """How long and in what steps to train."""

    epochs: int = number(100)
    """Epochs at the full learning rate (pix2pixHD's niter)."""
    decay_epochs: int = number(100)
    """Epochs after those, in which the learning rate falls to 0 by the linear decays (niter_decay); step and cosine run
    over all epochs."""
    max_steps: int | None = number(None, least=1)
    """Stop after this many steps, also in the middle of an epoch. Default: no limit."""
    steps_per_epoch: int | None = number(None, least=1)
    """Steps that count as one epoch for train.epochs and all other settings in epochs, so that a run has the same
    length with any number of images. null: an epoch sees each image once."""
    patience: int | None = number(None, least=1)
    """End the run after this many validations in a row, every log.images_every_steps, without a better figure of
    checkpoint.best. null: never."""
    validation_share: float = setting(0.0, lambda share: 0 <= share < 1, "0 <= share < 1")
    """Share of the training samples that validation takes if the data set has no validation split. They are in no
    batch. Their names decide which ones, so that new samples move none. 0: validation shows training samples."""
    validation_group: str | None = setting(None, _is_expression, "null, or a regular expression such as p[0-9]+")
    """A regular expression on the names of samples, as p[0-9]+ on p001_slice03. Samples with the same match (or the
    same parentheses) are one group. A group is either for training or for validation, so that no patient or scene is in
    both; validation_share is a share of the groups. null: each sample by itself."""
    batch_size: int = number(1, least=1)
    """Samples per process in one forward pass."""
    accumulation_steps: int = number(1, least=1)
    """Forward and backward passes whose gradients are averaged into one step."""
    discriminator_steps: int = number(1, least=1)
    """Updates of the discriminator for each update of the generator, each with other samples."""
    ema_decay: float = setting(0.0, lambda decay: 0 <= decay < 1, "0 <= decay < 1")
    """Decay of the moving average of the generator's weights; 0.999 is usual. 0: no average. Validation and test.py use
    the average. Its statistics of batch norm are estimated from 20 batches of training samples."""
    retain_graph: bool = True
    """true: one pass of the discriminator, whose graph serves the losses of both networks (pix2pixHD's update). false:
    the discriminator steps first, and makes another pass for the generator's loss (pix2pix's update)."""
    activation_checkpointing: bool = False
    """Keep only the activations between the stages of generator and VGG, and compute the others again in the backward
    pass. This takes less memory and more time."""
    compile: bool = False
    """Fuse the generator's layers with torch.compile, which takes up to a minute before the first step. It needs a
    C++ compiler, and on a GPU triton."""
    cuda_graph: bool = True
    """Replay the steps of one process on a GPU as a CUDA graph, without launching each kernel from the CPU. It is not
    used if images differ in size, or if less than a quarter of the GPU's memory would be left."""
    deterministic: bool = False
    """Use only deterministic algorithms, so that a resumed run on a GPU ends with the same bits. This is
    slower. A warning names operations without a deterministic algorithm. On a CPU runs are always exact."""
    pool_size: int = number(0)
    """Earlier translations that the discriminator sees, half of the time, instead of the present ones (Shrivastava et
    al. 2017). They take memory, and room in checkpoints. 0: none."""
    freeze_global_epochs: int = number(0)
    """generator.name=local: epochs in which only its finest enhancer is trained (pix2pixHD's niter_fix_global)."""
    freeze: list[str] = setting(
        [],
        lambda parts: all(all(part.partition(".")) for part in parts),
        "a list of parts of networks: [generator.stem]",
    )
    """Parts of networks that are not trained, by network and the beginnings of their parameters' names:
    [generator.stem, discriminator.scales.0]. A wrong name ends the run with a list of the names. The statistics of
    batch norm and spectral norm still change."""


@dataclass(frozen=True)
class OptimizerConfig(Section, prefix="optimizer."):
    """Adam, one for the generator and one for the discriminator."""

    learning_rate: float = number(2e-4)
    """Learning rate before the decay."""
    discriminator_learning_rate: float | None = number(None)
    """Learning rate of the discriminator, if it differs (TTUR, Heusel et al. 2017)."""
    decay: Literal["linear", "linear_pix2pix", "step", "plateau", "cosine"] = "linear"
    """linear: full for train.epochs, then falling to 0 as in pix2pixHD. linear_pix2pix: the same as in pix2pix, which
    begins one epoch earlier. step: a tenth after every 50 epochs, as in pix2pix. plateau: a fifth when the L1 of the
    validation samples has not fallen by 1 % for more than 5 epochs. cosine: half a wave over all epochs, where
    pix2pix's ends with train.epochs."""
    betas: list[float] = setting(
        [0.5, 0.999],
        lambda betas: len(betas) == 2 and all(0 <= beta < 1 for beta in betas),
        "two numbers, each 0 <= beta < 1",
    )
    """Decay of the running means of the gradients and of their squares."""
    max_gradient_norm: float | None = setting(
        None, lambda norm: norm is None or 0 < norm < math.inf, "above 0, or null"
    )
    """Clip the norm of each network's gradients to this, after unscaling, and report the norms before clipping; 1e9
    only reports them. Default: neither."""


@dataclass(frozen=True)
class AmpConfig:
    """Mixed precision, switched like apex's opt levels."""

    opt_level: Literal["O0", "O1", "O2", "O3"] = "O1"
    """O0: float32 everywhere, without TF32. O1: float32 weights, autocast in the networks. O2: weights in the low
    precision, norms and the optimizers' master weights in float32. O3: all in the low precision, the optimizers too;
    for comparison."""
    dtype: Literal["auto", "float16", "bfloat16"] = "auto"
    """Low precision of O1, O2 and O3. float16 scales the losses, with a GradScaler for each optimizer. auto: bfloat16
    where the device computes in it, otherwise float16 on a GPU and float32 on a CPU."""


@dataclass(frozen=True)
class AugmentationConfig(Section, prefix="augmentation."):
    """Augmentation of what the discriminator sees, in the training of both networks (DiffAugment, Zhao et al. 2020):
    against its overfitting, where there are few pairs."""

    policy: list[str] = setting(
        [],
        lambda names: len({*names} & {*AUGMENTATIONS}) == len(names),
        f"a list of some of {', '.join(AUGMENTATIONS)}, each once",
    )
    """Operations in the order in which they are applied, of color (brightness, saturation, contrast), translation (up
    to an eighth of each side) and cutout (a box of half the sides): [color,translation,cutout]. The source moves with
    the image. Real and translated image of a pair are augmented alike. Empty: none."""
