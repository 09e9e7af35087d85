"""Sections `method`, `train`, `optimizer`, `amp` and `augmentation`: how the networks are trained."""

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
    """Properties of a training method. Its code is in `training/methods`.

    translators: Names of the generators by direction. The default direction is first.
    networks: Names of all trained networks.
    pairs: Whether the method learns from pairs. Discriminators then also see the source.
    unused: Settings and sections without effect. They must keep their defaults.
    metrics: Metrics that are always computed, in addition to metrics.extra.
    compares_features: Whether a loss compares features of the generator, including features before norms.
    original: Program of the method's authors that this code follows, if any.
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
"""Declarations by name of the method."""


@dataclass(frozen=True)
class MethodConfig:
    """The training method."""

    name: Literal["paired", "contrastive", "cycle"] = "paired"
    """paired: learn from pairs. The discriminator sees source and target (pix2pixHD, SPADE, OASIS). contrastive: learn
    one direction without pairs. Patches of a translation must resemble the source (CUT, FastCUT). cycle: learn both
    directions without pairs, with two generators and two discriminators (CycleGAN)."""

    @property
    def declaration(self) -> MethodDeclaration:
        """Return the declaration of the method."""
        return METHODS[self.name]

    @property
    def translators(self) -> Mapping[str, str]:
        """The names of the generators by direction. The default direction is first."""
        return self.declaration.translators

    @property
    def default_direction(self) -> str:
        """The first direction of `translators`."""
        return next(iter(self.translators))

    def translator(self, direction: str | None = None) -> str:
        """Return the name of the generator for a direction. None: the default direction.

        Raises:
            ConfigError: the method trains no generator for this direction.
        """
        chosen = direction or self.default_direction
        if chosen not in self.translators:
            remedy = f"Leave --direction out, or train another run with data.direction={chosen}"
            known = ", ".join(self.translators)
            raise ConfigError(f"direction {chosen}: method.name={self.name} trains {known}. {remedy}.")
        return self.translators[chosen]

    def discriminator(self, direction: str | None = None) -> str:
        """Return the name of the discriminator for the translations of a direction."""
        target = (direction or self.default_direction)[-1]
        return f"discriminator_{target}" if len(self.translators) > 1 else "discriminator"

    def direction_of(self, network: str | None) -> str | None:
        """Return the direction of the generator or discriminator with this name; None for other networks."""
        networks = {way: (name, self.discriminator(way)) for way, name in self.translators.items()}
        return next((way for way, names in networks.items() if network in names), None)


def _is_expression(text: str | None) -> bool:
    try:
        return text is None or bool(text and re.compile(text))
    except (re.error, OverflowError, RecursionError):
        return False


@dataclass(frozen=True)
class TrainConfig(Section, prefix="train."):
    """Length of the training, and settings of its steps."""

    epochs: int = number(100)
    """Number of epochs at the full learning rate (pix2pixHD's niter)."""
    decay_epochs: int = number(100)
    """Number of further epochs, in which the linear decays reduce the learning rate to 0 (niter_decay). With
    optimizer.decay=step or cosine, the decay covers all epochs."""
    max_steps: int | None = number(None, least=1)
    """Stop after this many steps, even in the middle of an epoch. Default: no limit."""
    steps_per_epoch: int | None = number(None, least=1)
    """Number of steps that count as one epoch in all other settings. The length of a run then does not depend on the
    number of images. null: an epoch uses each image once."""
    patience: int | None = number(None, least=1)
    """End the run after this many validations in a row without a better value of checkpoint.best. null: never."""
    validation_share: float = setting(0.0, lambda share: 0 <= share < 1, "0 <= share < 1")
    """Share of the training samples that is kept for validation if the data set has no validation split. These samples
    are not trained on. A sample's own name decides whether it is kept, so new samples do not move other samples.
    0: validation uses training samples."""
    validation_group: str | None = setting(None, _is_expression, "null, or a regular expression such as p[0-9]+")
    """Regular expression for sample names, such as p[0-9]+ for p001_slice03. Samples with the same match are one group.
    With parentheses, only the text inside them counts. A group is used either for training or for validation, so that
    no patient or scene is in both. validation_share is then a share of the groups. null: no groups."""
    batch_size: int = number(1, least=1)
    """Number of samples per process in one forward pass."""
    accumulation_steps: int = number(1, least=1)
    """Number of forward and backward passes whose gradients are averaged for one step."""
    discriminator_steps: int = number(1, least=1)
    """Number of discriminator updates per generator update, each with other samples."""
    ema_decay: float = setting(0.0, lambda decay: 0 <= decay < 1, "0 <= decay < 1")
    """Decay of the moving average of the generator's weights; 0.999 is usual. 0: no average. Validation and test.py use
    the averaged weights. Their batch norm statistics are estimated from 20 training batches."""
    retain_graph: bool = True
    """true: run the discriminator once and use its graph for the losses of both networks (pix2pixHD). false: update the
    discriminator first, then run it again for the generator's loss (pix2pix)."""
    activation_checkpointing: bool = False
    """Store only the activations between the stages of the generator and of the network of the perceptual loss.
    Recompute all other activations in the backward pass. This takes less memory and more time."""
    compile: bool = False
    """Fuse the generator's layers with torch.compile, which takes up to a minute before the first step. This needs a
    C++ compiler and, on a GPU, triton."""
    cuda_graph: bool = True
    """Replay training steps as a CUDA graph, without launching each kernel from the CPU. This needs a single process on
    a GPU. No graph is used if image sizes differ, or if less than a quarter of the GPU memory would remain."""
    deterministic: bool = False
    """Use only deterministic algorithms, so that a resumed run on a GPU gives bitwise equal results. This is slower. A
    warning names operations without a deterministic algorithm. Runs on a CPU are always deterministic."""
    pool_size: int = number(0)
    """Number of earlier translations in a pool (Shrivastava et al. 2017). Half of the time, the discriminator sees a
    translation from the pool instead of a new one. The pool takes memory and space in checkpoints. 0: no pool."""
    freeze_global_epochs: int = number(0)
    """generator.name=local: number of epochs that train only the finest enhancer (pix2pixHD's niter_fix_global)."""
    freeze: list[str] = setting(
        [],
        lambda parts: all(all(part.partition(".")) for part in parts),
        "a list of parts of networks: [generator.stem]",
    )
    """Parts of networks that are not trained, as network name and beginning of the parameter name: [generator.stem,
    discriminator.scales.0]. A wrong name ends the run with a list of all names. The statistics of batch norm and
    spectral norm still change."""


@dataclass(frozen=True)
class OptimizerConfig(Section, prefix="optimizer."):
    """Adam. Generator and discriminator have separate optimizers."""

    learning_rate: float = number(2e-4)
    """Learning rate before the decay."""
    discriminator_learning_rate: float | None = number(None)
    """Learning rate of the discriminator, if it differs from learning_rate (TTUR, Heusel et al. 2017)."""
    decay: Literal["linear", "linear_pix2pix", "step", "plateau", "cosine"] = "linear"
    """linear: constant for train.epochs, then linear to 0, as in pix2pixHD. linear_pix2pix: the same, but one epoch
    earlier, as in pix2pix. step: times 0.1 after every 50 epochs, as in pix2pix. plateau: times 0.2 if the validation
    L1 has not fallen by 1 % for more than 5 epochs. cosine: half a cosine wave over all epochs. In pix2pix, this wave
    ends after train.epochs."""
    betas: list[float] = setting(
        [0.5, 0.999],
        lambda betas: len(betas) == 2 and all(0 <= beta < 1 for beta in betas),
        "two numbers, each 0 <= beta < 1",
    )
    """Decay rates of Adam's running means of gradients and squared gradients."""
    max_gradient_norm: float | None = setting(
        None, lambda norm: norm is None or 0 < norm < math.inf, "above 0, or null"
    )
    """Clip the gradient norm of each network to this value, after unscaling, and log the norm before clipping. 1e9 only
    logs the norm. Default: no clipping and no log."""


@dataclass(frozen=True)
class AmpConfig:
    """Mixed precision, with the optimization levels of NVIDIA's apex."""

    opt_level: Literal["O0", "O1", "O2", "O3"] = "O1"
    """O0: float32 everywhere, without TF32. O1: float32 weights, autocast in the networks. O2: low-precision weights;
    norms and the optimizers' master weights in float32. O3: everything in low precision, including the optimizers, only
    for comparison."""
    dtype: Literal["auto", "float16", "bfloat16"] = "auto"
    """Low precision of O1, O2 and O3. float16 scales the losses with a GradScaler for each optimizer. auto: bfloat16 if
    the device computes in it, otherwise float16 on a GPU and float32 on a CPU."""


@dataclass(frozen=True)
class AugmentationConfig(Section, prefix="augmentation."):
    """Augmentation of all images that the discriminator sees (DiffAugment, Zhao et al. 2020). It reduces the
    discriminator's overfitting on few pairs."""

    policy: list[str] = setting(
        [],
        lambda names: len({*names} & {*AUGMENTATIONS}) == len(names),
        f"a list of some of {', '.join(AUGMENTATIONS)}, each once",
    )
    """Operations in their order, such as [color,translation,cutout]. color: brightness, saturation and contrast.
    translation: shift by up to an eighth of each side, together with the source. cutout: erase a box of half the height
    and width. The real and the translated image of a pair are augmented alike. []: none."""
