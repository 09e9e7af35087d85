"""The training: sections `loss`, `optimizer`, `amp` and `train`."""

import math
from dataclasses import dataclass, field, fields
from typing import Literal

from configs.schema.checks import require, require_at_least


def weight(default: float) -> float:
    """Return a field that is the weight of the generator's loss of its name; see losses.GENERATOR_LOSSES."""
    value: float = field(default=default, metadata={"is_weight": True})
    return value


@dataclass(frozen=True)
class LossConfig:
    """Weights of the generator's losses, and their settings; a loss of weight 0 is not computed."""

    adversarial: float = weight(1.0)
    """The adversarial loss, of kind gan_mode."""
    gan_mode: Literal["lsgan", "vanilla", "hinge", "wgan"] = "lsgan"
    """lsgan: squared distance (pix2pixHD). vanilla: binary cross-entropy (pix2pix). hinge. wgan: the plain mean, which
    wants gradient_penalty."""
    over_scales: Literal["sum", "mean"] = "sum"
    """How the adversarial losses of the discriminator's scales are combined; pix2pixHD takes the sum."""
    gradient_penalty: float = 0.0
    """Weight of the WGAN gradient penalty in the discriminator's loss; 10 in its paper."""
    r1: float = 0.0
    """Weight of the R1 penalty in the discriminator's loss."""
    feature_matching: float = weight(10.0)
    """L1 between the discriminator's features of translated and real image."""
    l1: float = weight(0.0)
    """Mean absolute difference of the pixels in [-1, 1]."""
    vgg: float = weight(10.0)
    """L1 between VGG19 features; needs VGG19's weights (548 MB)."""
    vgg_weights: str | None = None
    """File of torchvision's VGG19 weights. Default: torchvision's download, kept in torch's cache."""
    vgg_imagenet_normalization: bool = False
    """Normalise VGG19's input by ImageNet's statistics, which pix2pixHD does not do."""

    def __post_init__(self) -> None:
        require_at_least(0, "loss", **self.weights, gradient_penalty=self.gradient_penalty, r1=self.r1)
        require(sum(self.weights.values()) > 0, "loss", "all 0", "at least one loss weight above 0")

    @property
    def weights(self) -> dict[str, float]:
        """The weights by the names of the losses."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.metadata.get("is_weight")}


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam, one for the generator and one for the discriminator."""

    learning_rate: float = 2e-4
    """Learning rate before the decay."""
    discriminator_learning_rate: float | None = None
    """Learning rate of the discriminator, where it is to differ (TTUR, Heusel et al. 2017)."""
    decay: Literal["linear", "linear_pix2pix", "step", "plateau", "cosine"] = "linear"
    """linear: full for train.epochs, then falling to 0 as in pix2pixHD. linear_pix2pix: the same as in pix2pix, which
    begins one epoch earlier. step: a tenth after every step_epochs. plateau: a fifth when the validation samples' L1
    has not fallen by 1 % for more than plateau_epochs. cosine: half a wave over all epochs, where pix2pix's ends with
    train.epochs."""
    step_epochs: int = 50
    """step: epochs between two falls."""
    plateau_epochs: int = 5
    """plateau: epochs without progress that are borne."""
    beta1: float = 0.5
    """Decay of the mean of the gradients."""
    beta2: float = 0.999
    """Decay of the mean of their squares."""
    max_gradient_norm: float | None = None
    """Clip the norm of each network's gradients to this, after unscaling. Default: no clipping."""
    weight_decay: float = 0.0
    """Share of each convolution weight that a step at learning rate 1 takes away (AdamW, Loshchilov & Hutter 2019);
    biases and norms are spared."""
    step_in_backward: bool = False
    """Experimental. Update each large weight of the generator as soon as its gradient is there, and free that, instead
    of keeping all gradients until the end of the backward pass: less memory, but an update that is not finite is left
    out only from the first such gradient on, not completely. Without effect where an update needs all gradients, or
    they come at once: with several processes, train.accumulation_steps, max_gradient_norm, log.gradient_norms,
    float16's scaled gradients, amp.opt_level=O2, train.compile, train.cuda_graph."""

    def __post_init__(self) -> None:
        rates = {"learning_rate": self.learning_rate, "discriminator_learning_rate": self.discriminator_learning_rate}
        require_at_least(0, "optimizer", **rates)
        require_at_least(0, "optimizer", weight_decay=self.weight_decay, plateau_epochs=self.plateau_epochs)
        require_at_least(1, "optimizer", step_epochs=self.step_epochs)
        for key, beta in (("beta1", self.beta1), ("beta2", self.beta2)):
            require(0 <= beta < 1, f"optimizer.{key}", beta, "0 <= beta < 1")
        limit = self.max_gradient_norm
        require(limit is None or 0 < limit < math.inf, "optimizer.max_gradient_norm", limit, "above 0, or null")


@dataclass(frozen=True)
class AmpConfig:
    """Mixed precision, switched like apex's opt levels."""

    opt_level: Literal["O0", "O1", "O2", "O3"] = "O1"
    """O0: float32 everywhere. O1: float32 weights, autocast in the networks. O2: weights in the low precision, norms
    and the optimizers' master weights in float32. O3: all in the low precision, the optimizers too; for comparison."""
    dtype: Literal["auto", "float16", "bfloat16"] = "auto"
    """Low precision of O1, O2 and O3. float16 scales the losses, with a GradScaler for each optimizer. auto: bfloat16
    where the device computes in it, otherwise float16 on a GPU and float32 on a CPU."""


@dataclass(frozen=True)
class TrainConfig:
    """How long and in what steps to train."""

    epochs: int = 100
    """Epochs at the full learning rate (pix2pixHD's niter)."""
    decay_epochs: int = 100
    """Epochs after those, in which the learning rate falls to 0 by the linear decays (niter_decay); step and cosine run
    over all epochs."""
    max_steps: int | None = None
    """Stop after this many steps, wherever the epochs stand. Default: no limit."""
    batch_size: int = 1
    """Samples per process in one forward pass."""
    accumulation_steps: int = 1
    """Forward and backward passes whose gradients are averaged into one step."""
    discriminator_steps: int = 1
    """Updates of the discriminator for each of the generator, each on samples of its own."""
    ema_decay: float = 0.0
    """Decay of the moving average of the generator's weights, which is shown in validation and used by test.py; 0.999
    is usual. 0: no average."""
    retain_graph: bool = True
    """true: judge each translation once and keep the graph for both losses (pix2pixHD's update). false: step the
    discriminator first, then judge again for the generator (pix2pix's update)."""
    activation_checkpointing: bool = False
    """Keep only the activations between the stages of generator and VGG, and compute those within again in the backward
    pass: less memory, more time. Not with batch norm or spectral norm, which would count a pass twice."""
    compile: bool = False
    """Fuse the generator's layers with torch.compile, which takes up to a minute before the first step. A C++ compiler
    has to be there, on a GPU triton."""
    cuda_graph: bool = False
    """Experimental. Have the GPU repeat a step by itself (CUDA graph), without the CPU launching each kernel: for small
    networks and images, where launching takes longer than computing. One process, no train.pool_size; images that
    differ in size are stepped without the graph. Nothing else can use the memory that the step has taken of the
    GPU's."""
    deterministic: bool = False
    """Use deterministic algorithms alone, so that on a GPU too a resumed run ends with the same bits; slower, and
    without cudnn_benchmark. An operation that has no deterministic algorithm is named once in a warning. On a CPU,
    where runs are exact in any case, it changes nothing."""
    channels_last: Literal["auto", "always", "never"] = "auto"
    """Layout of the networks in memory, in training and translation. auto: channels last on a GPU, whose tensor cores
    want it, and for VGG19 on CPUs with matrix units (AMX)."""
    cudnn_benchmark: bool = True
    """Have a GPU try which algorithm of each convolution is the fastest, when a size comes for the first time."""
    async_upload: bool = True
    """Bring batches to a GPU in a stream of their own, while it still computes the step before."""
    profile_steps: int = 0
    """Steps of which to write a trace of torch.profiler, after 10 others, to trace.json.gz in the run's folder, for
    ui.perfetto.dev. 0: none."""
    pool_size: int = 0
    """Earlier translations that are kept to be judged, half of the time, in place of the present ones (Shrivastava et
    al. 2017). They take memory, and room in checkpoints. 0: none."""
    freeze_global_epochs: int = 0
    """generator.name=local: epochs in which only its finest enhancer is trained (pix2pixHD's niter_fix_global)."""
    freeze_generator: list[str] = field(default_factory=list)
    """Parts of the generator that are not trained, by the beginnings of their parameters' names: [stem, downs.0]. A
    name that is not there is answered with those that are. The statistics of batch norm and spectral norm still
    change."""
    freeze_discriminator: list[str] = field(default_factory=list)
    """The same for the discriminator."""

    def __post_init__(self) -> None:
        require_at_least(0, "train", epochs=self.epochs, decay_epochs=self.decay_epochs)
        require(self.epochs + self.decay_epochs > 0, "train.epochs + train.decay_epochs", 0, "at least 1 epoch")
        require_at_least(1, "train", max_steps=self.max_steps, batch_size=self.batch_size)
        require_at_least(1, "train", accumulation_steps=self.accumulation_steps)
        require_at_least(1, "train", discriminator_steps=self.discriminator_steps)
        require_at_least(0, "train", pool_size=self.pool_size, freeze_global_epochs=self.freeze_global_epochs)
        require_at_least(0, "train", profile_steps=self.profile_steps)
        for key, prefixes in (("generator", self.freeze_generator), ("discriminator", self.freeze_discriminator)):
            are_names = all(type(prefix) is str and prefix for prefix in prefixes)
            require(are_names, f"train.freeze_{key}", prefixes, "a list of names: [stem,downs.0]")
        require(0 <= self.ema_decay < 1, "train.ema_decay", self.ema_decay, "0 <= decay < 1")
        if self.cuda_graph:
            require(self.pool_size == 0, "train.pool_size", self.pool_size, "0 with train.cuda_graph")
