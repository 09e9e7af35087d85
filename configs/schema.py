"""Every setting of the application: its type, default, meaning, unit, and the check of its value.

The sections are frozen dataclasses; a wrong value raises ConfigError when a section is made, so a `Config` that
exists is valid. Only entry points read it: everything below them takes named, typed arguments.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

from utils.errors import ConfigError
from utils.yaml_file import shortened

SIZED_BY_CROP = ("resize_and_crop", "scale_width_and_crop", "crop")
MOST = 2**31 - 1  # of a whole number: what torch and the file formats count with
MOST_FRACTION = 1e30  # of other numbers: float32 ends at 3e38
MOST_HALVINGS = 16  # of an image: more than any has
MOST_LAYERS = 1000  # of a kind
EXTRA_METRICS = ("lpips", "fid", "kid")


def require(condition: bool, key: str, value: object, expected: str) -> None:
    """Raise ConfigError unless `condition` holds."""
    if not condition:
        raise ConfigError(f"{key} is {shortened(value)}, expected {expected}")


def require_at_least(least: float, section: str, **values: float | None) -> None:
    """Raise ConfigError, which names them all, unless every value is None or a finite number of at least `least`."""
    require_between(least, MOST, section, **values)


def require_between(least: float, most: int, section: str, **values: float | None) -> None:
    """The same, where whole numbers end at `most`."""
    problems = []
    for key, value in values.items():
        largest = MOST_FRACTION if isinstance(value, float) else most
        if value is None or least <= value <= largest:
            continue
        expected = f"a number from {least:g} to {largest}" if value > least else f"a number of at least {least:g}"
        problems.append(f"{section}.{key} is {shortened(value)}, expected {expected}")
    if problems:
        raise ConfigError(*problems)


@dataclass(frozen=True)
class RunConfig:
    """Where a run lives and what it is called."""

    name: str = "unnamed"
    """Name of the run, and of its folder."""
    root: str = "runs"
    """Folder that holds the runs; the run's files go to ROOT/NAME."""
    seed: int = 0
    """Seed of the initial weights, the order of the samples and their augmentation."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU where there is one."""
    peer_timeout_s: float = 1800.0
    """Under torchrun: seconds that a process waits for the others before it ends. Validation and saving, which the
    first one does alone, have to fit in."""

    def __post_init__(self) -> None:
        is_folder_name = (
            self.name.strip(".")
            and self.name == self.name.strip()
            and self.name.isprintable()
            and not set(self.name) & set('/\\:*?"<>|')
            and len(self.name.encode()) <= 200  # a file system takes 255, with what is put behind it
        )
        require(bool(is_folder_name), "run.name", repr(self.name), "a name that can be a folder, up to 200 bytes")
        require(0 < self.peer_timeout_s <= MOST, "run.peer_timeout_s", self.peer_timeout_s, f"above 0, up to {MOST}")
        require(0 <= self.seed < 2**32, "run.seed", self.seed, "0 to 4294967295")


@dataclass(frozen=True)
class SyntheticConfig:
    """The embedded data set of layout `synthetic_facades`."""

    train_samples: int = 1000
    """Number of samples in the training split."""
    val_samples: int = 16
    """Number of samples in the validation split."""
    test_samples: int = 32
    """Number of samples in the test split."""
    height: int = 128
    """Height of a sample, in pixels."""
    width: int = 128
    """Width of a sample, in pixels."""

    def __post_init__(self) -> None:
        require_at_least(
            1,
            "data.synthetic",
            train_samples=self.train_samples,
            val_samples=self.val_samples,
            test_samples=self.test_samples,
        )
        require_at_least(32, "data.synthetic", height=self.height, width=self.width)


@dataclass(frozen=True)
class DataConfig:
    """The pairs to learn from, and how they are cut to size."""

    layout: Literal["synthetic_facades", "paired_folders", "side_by_side"] = "synthetic_facades"
    """How the data set lies on disk. synthetic_facades needs no file."""
    root: str = ""
    """Folder of the data set; unused by synthetic_facades."""
    source_folder: str | None = None
    """paired_folders: folder of the sources under root; `{split}` becomes train, val or test. Default {split}_label
    where n_classes is set, otherwise {split}_A."""
    target_folder: str | None = None
    """paired_folders: folder of the targets. Default {split}_img where n_classes is set, otherwise {split}_B."""
    instance_folder: str = "{split}_inst"
    """paired_folders: folder of the instance maps, read when instance_edges is true or features are encoded."""
    feature_folder: str = "{split}_feat"
    """paired_folders: folder of precomputed feature maps, read when features.origin is precomputed."""
    direction: Literal["AtoB", "BtoA"] = "AtoB"
    """RGB pairs: which side is translated into which."""
    n_classes: int = 0
    """Number of classes of a label map; ids are 0 .. n_classes-1. 0: the source is an RGB image.
    synthetic_facades knows its own number."""
    source_channels: int = 3
    """Channels that the networks see of an RGB source: 3, or 1 for its brightness alone."""
    target_channels: int = 3
    """Channels that are translated into: 3, or 1 for grey."""
    ignore_id: int | None = None
    """Id of pixels without a class (255 in many data sets): they become zeros in every one-hot channel."""
    instance_edges: bool = False
    """Give the networks the edges between instances as one more channel; needs instance maps."""
    preprocess: Literal["resize_and_crop", "scale_width", "scale_width_and_crop", "crop", "none"] = "scale_width"
    """resize_and_crop: to load_width x load_height, then a random crop. scale_width: to load_width, height in
    proportion. scale_width_and_crop: that, then a random crop. crop: a random crop of the image as it is.
    none: the image as it is, but for the nearest size that the generator can halve."""
    load_width: int = 1024
    """Width after resizing, in pixels."""
    load_height: int = 512
    """Height after resizing, in pixels; used by resize_and_crop."""
    crop_width: int = 512
    """Width of the crop, in pixels."""
    crop_height: int = 512
    """Height of the crop, in pixels."""
    flip: bool = True
    """Mirror half of the training samples."""
    validation_split: str | None = None
    """Split whose first samples are shown during training. Default: val, or train where there is no val."""
    test_split: str = "test"
    """Split that test.py translates unless told otherwise."""
    workers: int | str = "auto"
    """Loader processes per training process; 0 loads in the training process itself. auto: one for every two cores that
    a process has, at most 8."""
    cache: Literal["none", "memory", "disk"] = "none"
    """Keep decoded and resized samples, as uint8, for later epochs: in the machine's memory until the run ends, or in
    data.cache_folder for later runs too. A sample is known by the bytes of its files: what changes is read anew, and a
    data set that is moved, copied or touched is not. A run that is killed leaves its memory to
    python -m tools.clear_cache."""
    cache_folder: str = "~/.cache/pairgan"
    """disk: where. python -m tools.clear_cache empties it; another than the default with --folder."""
    cache_gib: float = 16.0
    """Most that is kept, in GiB. What no run has used for a day makes room, longest unused first; samples for which
    there is none are decoded each time, and the plan tells how many fit. Half of the shared memory (memory) and a
    fiftieth of the disk (disk) stay free whatever it says."""
    on_bad_sample: Literal["error", "skip"] = "error"
    """What a training sample that cannot be used does. error: it ends the run. skip: another takes its place, and it is
    named once; more than 1 % of the samples, and more than 10, end the run all the same."""
    timeout_s: float = 600.0
    """Longest that loader processes may take for a batch, in seconds, before the run ends. 0: for ever."""
    prefetch: int = 2
    """Batches that each loader process has ready."""
    synthetic: SyntheticConfig = field(default_factory=SyntheticConfig)
    """Sizes of the embedded data set."""

    def __post_init__(self) -> None:
        require_at_least(0, "data", n_classes=self.n_classes, ignore_id=self.ignore_id, cache_gib=self.cache_gib)
        require_at_least(0, "data", timeout_s=self.timeout_s)
        require_at_least(1, "data", prefetch=self.prefetch)
        for key, n_channels in (("source_channels", self.source_channels), ("target_channels", self.target_channels)):
            require(n_channels in (1, 3), f"data.{key}", n_channels, "1 or 3")
        require(self.cache_folder.strip() != "", "data.cache_folder", "empty", "a folder")
        is_count = isinstance(self.workers, int) and self.workers >= 0
        require(is_count or self.workers == "auto", "data.workers", self.workers, "a number of at least 0, or auto")
        require_at_least(
            1,
            "data",
            load_width=self.load_width,
            load_height=self.load_height,
            crop_width=self.crop_width,
            crop_height=self.crop_height,
        )
        if self.layout != "synthetic_facades":
            require(self.root != "", "data.root", "empty", "the folder of the data set: add data.root=FOLDER")
        if self.layout == "side_by_side":
            require(self.n_classes == 0, "data.n_classes", self.n_classes, "0: side_by_side holds RGB images")
            require(not self.instance_edges, "data.instance_edges", True, "false: side_by_side has no instances")
        if self.layout == "paired_folders" and self.direction == "BtoA":
            require(self.n_classes == 0, "data.direction", "BtoA", "AtoB where data.n_classes is set")
        if self.preprocess == "resize_and_crop":
            fits = self.crop_width <= self.load_width and self.crop_height <= self.load_height
            crop, load = f"{self.crop_width}x{self.crop_height}", f"{self.load_width}x{self.load_height}"
            require(fits, "data.crop_width x data.crop_height", crop, f"no more than the load size {load}")
        if self.preprocess == "scale_width_and_crop":
            fits = self.crop_width <= self.load_width
            require(fits, "data.crop_width", self.crop_width, f"no more than data.load_width {self.load_width}")

    @property
    def cuts_by_chance(self) -> bool:
        """Whether a sample is cut to another part in each epoch."""
        is_whole = (self.crop_width, self.crop_height) == (self.load_width, self.load_height)
        return self.preprocess in SIZED_BY_CROP and not (self.preprocess == "resize_and_crop" and is_whole)


@dataclass(frozen=True)
class GeneratorConfig:
    """The network that translates."""

    name: Literal["global", "local", "unet"] = "global"
    """global: pix2pixHD's global generator; with n_downsamplings 2 it is pix2pix's ResNet generator. local: pix2pixHD's
    local enhancer. unet: pix2pix's U-Net."""
    base_channels: int = 64
    """Channels after the first convolution (ngf); each downsampling doubles them, in a U-Net up to 8 times."""
    n_downsamplings: int = 4
    """Number of halvings; the sides of an image must be multiples of 2**n_downsamplings. A U-Net needs 5; 8 is
    pix2pix's unet_256."""
    n_blocks: int = 9
    """Number of residual blocks at the lowest resolution; a U-Net has none."""
    n_enhancers: int = 1
    """local: number of resolutions above the global generator's, each a further halving."""
    n_enhancer_blocks: int = 3
    """local: number of residual blocks of each enhancer."""
    norm: Literal["instance", "batch"] = "instance"
    """Normalisation layer."""
    dropout: bool = False
    """global, unet: drop half of the inner activations in training, the noise of pix2pix."""
    upsample: Literal["transposed", "nearest", "bilinear", "residual"] = "transposed"
    """global, local: transposed convolution, as the originals; interpolation and convolution, which leave no
    checkerboard; or residual blocks."""
    padding: Literal["zeros", "reflect"] = "zeros"
    """global, local: border of the strided convolutions; reflect avoids light spots there."""
    spectral_norm: bool = False
    """Divide the weights of every convolution by their largest singular value."""
    init: Literal["normal", "xavier", "kaiming", "orthogonal"] = "normal"
    """Distribution of the initial convolution weights."""
    init_gain: float = 0.02
    """Scale of the initial weights: standard deviation of normal and of batch norm's, gain of xavier and orthogonal."""

    def __post_init__(self) -> None:
        halvings = {"n_downsamplings": self.n_downsamplings, "n_enhancers": self.n_enhancers}
        blocks = {"n_blocks": self.n_blocks, "n_enhancer_blocks": self.n_enhancer_blocks}
        require_at_least(1, "generator", base_channels=self.base_channels)
        require_between(1, MOST_HALVINGS, "generator", **halvings)
        require_between(0, MOST_LAYERS, "generator", **blocks)
        require_at_least(0, "generator", init_gain=self.init_gain)
        if self.name == "unet":
            expected = "at least 5 for generator.name=unet"
            require(self.n_downsamplings >= 5, "generator.n_downsamplings", self.n_downsamplings, expected)


@dataclass(frozen=True)
class DiscriminatorConfig:
    """The network that tells translated from real."""

    name: Literal["multiscale_patch", "pixel"] = "multiscale_patch"
    """multiscale_patch: pix2pixHD's PatchGAN on an image pyramid; with n_scales 1 and padding 1 it is pix2pix's. pixel:
    pix2pix's 1x1 convolutions."""
    base_channels: int = 64
    """Channels after the first convolution (ndf); each layer doubles them, up to max_channels."""
    max_channels: int = 512
    """multiscale_patch: most channels of a layer."""
    n_layers: int = 3
    """multiscale_patch: number of strided layers of each PatchGAN."""
    n_scales: int = 2
    """multiscale_patch: number of resolutions that are judged, each half of the one before."""
    padding: int = 2
    """multiscale_patch: zeros around each layer's input, in pixels; 1 in pix2pix."""
    spectral_norm: bool = False
    """Divide the weights of every convolution by their largest singular value."""
    norm: Literal["instance", "batch"] = "instance"
    """Normalisation layer."""
    init: Literal["normal", "xavier", "kaiming", "orthogonal"] = "normal"
    """Distribution of the initial convolution weights."""
    init_gain: float = 0.02
    """Scale of the initial weights, as for the generator."""

    def __post_init__(self) -> None:
        require_at_least(1, "discriminator", base_channels=self.base_channels, max_channels=self.max_channels)
        require_between(1, MOST_HALVINGS, "discriminator", n_layers=self.n_layers, n_scales=self.n_scales)
        require_between(1, MOST_LAYERS, "discriminator", padding=self.padding)
        require_at_least(0, "discriminator", init_gain=self.init_gain)


@dataclass(frozen=True)
class FeaturesConfig:
    """pix2pixHD's instance features: the look of each instance, given to the generator beside the source."""

    n_channels: int = 0
    """Number of channels of the features; 3 in pix2pixHD. 0: no features."""
    origin: Literal["encoded", "precomputed"] = "encoded"
    """encoded: from the target, by an encoder that is trained along. precomputed: read from data.feature_folder, where
    tools.precompute_features writes them; they have 3 channels."""
    regions: Literal["instances", "labels"] = "instances"
    """What shares its features: the pixels of an instance, or all of a class."""
    base_channels: int = 16
    """encoded: channels after the encoder's first convolution (nef)."""
    n_downsamplings: int = 4
    """encoded: number of the encoder's halvings."""

    def __post_init__(self) -> None:
        require_at_least(0, "features", n_channels=self.n_channels)
        require_at_least(1, "features", base_channels=self.base_channels)
        require_between(1, MOST_HALVINGS, "features", n_downsamplings=self.n_downsamplings)
        if self.origin == "precomputed":
            require(self.n_channels in (0, 3), "features.n_channels", self.n_channels, "3: precomputed maps are images")


@dataclass(frozen=True)
class InitConfig:
    """Weights to start a new run from; a run that goes on has its own."""

    generator: str | None = None
    """Checkpoint, run folder, or weight file of pix2pixHD or pix2pix. What has a place in the generator is taken; a
    global generator becomes the trunk of a local one."""
    discriminator: str | None = None
    """The same for the discriminator; one with fewer scales keeps the resolutions that it judged."""
    encoder: str | None = None
    """Weight file of pix2pixHD's feature encoder, which the originals keep apart."""


@dataclass(frozen=True)
class LossConfig:
    """Weights of the generator's loss terms; a term of weight 0 is not computed."""

    adversarial: float = 1.0
    """The adversarial term, of kind gan_mode."""
    gan_mode: Literal["lsgan", "vanilla", "hinge", "wgan"] = "lsgan"
    """lsgan: squared distance (pix2pixHD). vanilla: binary cross-entropy (pix2pix). hinge. wgan: the bare mean, which
    wants gradient_penalty."""
    over_scales: Literal["sum", "mean"] = "sum"
    """How the adversarial losses of the discriminator's scales are put together; pix2pixHD takes the sum."""
    gradient_penalty: float = 0.0
    """Weight of the WGAN gradient penalty in the discriminator's loss; 10 in its paper."""
    r1: float = 0.0
    """Weight of the R1 penalty in the discriminator's loss."""
    feature_matching: float = 10.0
    """L1 between the discriminator's features of translated and real image."""
    l1: float = 0.0
    """Mean absolute difference of the pixels in [-1, 1]."""
    vgg: float = 10.0
    """L1 between VGG19 features; needs VGG19's weights (548 MB)."""
    vgg_weights: str | None = None
    """File of torchvision's VGG19 weights. Default: torchvision's download, kept in torch's cache."""
    vgg_imagenet_normalization: bool = False
    """Normalise VGG19's input by ImageNet's statistics, which pix2pixHD does not do."""
    vgg_kept_gib: float = 0.0
    """Most that is kept of the targets' VGG19 features for later epochs, in GiB of the device's memory: 4 MB for an
    image of 128x128 in a low dtype, 16 MB at 256x256. Worth it for small networks; samples must not be mirrored or cut
    by chance."""

    def __post_init__(self) -> None:
        weights = {"adversarial": self.adversarial, "feature_matching": self.feature_matching}
        require_at_least(0, "loss", **weights, l1=self.l1, vgg=self.vgg)
        require_at_least(0, "loss", gradient_penalty=self.gradient_penalty, r1=self.r1, vgg_kept_gib=self.vgg_kept_gib)
        total = sum(weights.values()) + self.l1 + self.vgg
        require(total > 0, "loss", "all 0", "at least one loss weight above 0")


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
    step_in_backward: bool = True
    """Update each large weight of the generator as soon as its gradient is there, which then makes room for the next,
    instead of keeping all gradients until the end of the backward pass: the same update in less memory, but that one
    that is not finite leaves out only what comes after it. It is not done where an update needs all gradients, or they
    come at once: with several processes, train.accumulation_steps, max_gradient_norm, log.gradient_norms, float16's
    scaled gradients, amp.opt_level=O2, train.compile, train.cuda_graph."""

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
    """Have the GPU repeat a step by itself (CUDA graph), without the CPU launching each kernel: for small networks and
    images, where launching takes longer than computing. One process, no train.pool_size; images that differ in size
    are stepped as ever. What the step has taken of the GPU's memory, nothing else can use."""
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
    name that is not there is answered with those that are. Batch norm's statistics and spectral norm's go on."""
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


@dataclass(frozen=True)
class CheckpointConfig:
    """How often everything is saved."""

    every_steps: int = 1000
    """Steps between checkpoints; the last step is always saved."""
    keep: int = 3
    """Number of newest checkpoints that stay; 0 keeps all."""
    best: Literal["none", "l1", "psnr", "ssim", "ms_ssim", "lpips", "fid", "kid", "pixel_accuracy", "mean_iou"] = "none"
    """Keep the weights that were best on the validation samples, by this figure, in best.pt of the run's folder."""

    def __post_init__(self) -> None:
        require_at_least(1, "checkpoint", every_steps=self.every_steps)
        require_at_least(0, "checkpoint", keep=self.keep)


@dataclass(frozen=True)
class MetricsConfig:
    """What is measured of translated images, in validation and by test.py; L1, PSNR, SSIM and MS-SSIM always are."""

    n_samples: int | None = None
    """Validation samples that are measured each time; they stay in memory. Default: the log.n_images that are shown."""
    extra: list[str] = field(default_factory=list)
    """More figures: lpips, fid, kid. Each needs a network's weights; fid and kid also the package torch-fidelity, and
    thousands of images to mean what they mean elsewhere."""
    alexnet_weights: str | None = None
    """File of AlexNet's weights for lpips, torchvision's alexnet-owt-7be5be79.pth. Default: torch's cache, downloaded
    where missing."""
    inception_weights: str | None = None
    """File of InceptionV3's weights for fid and kid, torch-fidelity's weights-inception-2015-12-05-6726825d.pth.
    Default: torch's cache, downloaded where missing."""
    label_colors: str | None = None
    """Where photos are translated into label maps: the classes' colours, for pixel accuracy and mean IoU. cityscapes,
    cmp_facades, or a YAML file of lines such as road: [128, 64, 128]."""

    def __post_init__(self) -> None:
        require_at_least(1, "metrics", n_samples=self.n_samples)
        unknown = [name for name in self.extra if name not in EXTRA_METRICS]
        require(not unknown, "metrics.extra", unknown, f"a list of some of {', '.join(EXTRA_METRICS)}")
        expected = "null, cityscapes, cmp_facades or a YAML file"
        require(self.label_colors is None or self.label_colors.strip() != "", "metrics.label_colors", "empty", expected)


@dataclass(frozen=True)
class LogConfig:
    """What is told during training, and how often."""

    every_steps: int = 100
    """Steps between lines of the log and TensorBoard's scalars, which are means over these steps."""
    images_every_steps: int = 500
    """Steps between validations: figures of the samples, their pictures, and the choice of best.pt."""
    n_images: int = 4
    """Number of validation samples in a grid, one to a row."""
    gradient_norms: bool = False
    """Whether to tell the norms of each network's gradients, before clipping; all are then in memory together."""
    histograms: bool = False
    """Whether to show the distribution of every weight, with the image grids."""
    activations: str | None = None
    """A module of the generator whose output is shown for the first sample, with the image grids: blocks.0. A name that
    is not there is answered with some that are."""

    def __post_init__(self) -> None:
        require_at_least(1, "log", every_steps=self.every_steps, n_images=self.n_images)
        require_at_least(1, "log", images_every_steps=self.images_every_steps)


@dataclass(frozen=True)
class Config:
    """The whole configuration of one run."""

    run: RunConfig = field(default_factory=RunConfig)
    data: DataConfig = field(default_factory=DataConfig)
    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    features: FeaturesConfig = field(default_factory=FeaturesConfig)
    discriminator: DiscriminatorConfig = field(default_factory=DiscriminatorConfig)
    init: InitConfig = field(default_factory=InitConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    amp: AmpConfig = field(default_factory=AmpConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        """Check what one section wants of another."""
        level, decay = self.amp.opt_level, self.train.ema_decay
        if self.loss.gradient_penalty or self.loss.r1:
            expected = "O0 or O1 where loss.gradient_penalty or loss.r1 is set: their gradients need float32"
            require(level in ("O0", "O1"), "amp.opt_level", level, expected)
        if level == "O3":
            require(
                decay == 0, "train.ema_decay", decay, "0 with amp.opt_level=O3: its weights are too coarse to average"
            )
        if self.generator.norm == "batch" or self.generator.spectral_norm:
            recomputes = self.train.activation_checkpointing
            expected = "false with generator.norm=batch or generator.spectral_norm=true"
            require(not recomputes, "train.activation_checkpointing", recomputes, expected)
        if self.train.cuda_graph and self.generator.dropout:
            expected = "false with train.cuda_graph and generator.dropout: to draw the same twice asks the CPU"
            require(not self.train.activation_checkpointing, "train.activation_checkpointing", True, expected)
        self._check_features()
        if self.loss.vgg and self.loss.vgg_kept_gib:
            self._check_kept_features()
        if self.generator.name != "local":
            frozen_epochs = self.train.freeze_global_epochs
            expected = "0 where generator.name is not local"
            require(frozen_epochs == 0, "train.freeze_global_epochs", frozen_epochs, expected)
        self._check_sizes()

    def _check_features(self) -> None:
        features, data = self.features, self.data
        if not self.has_encoder:
            require(self.init.encoder is None, "init.encoder", self.init.encoder, "null where no features are encoded")
        if features.n_channels == 0:
            return
        if features.origin == "precomputed":
            expected = "encoded where data.layout is not paired_folders"
            require(data.layout == "paired_folders", "features.origin", features.origin, expected)
        expected = "0: side_by_side has neither instances nor labels"
        require(data.layout != "side_by_side", "features.n_channels", features.n_channels, expected)
        if features.regions == "labels":
            has_labels = data.n_classes > 0 or data.layout == "synthetic_facades"
            require(has_labels, "features.regions", features.regions, "instances where data.n_classes is 0")

    def _check_kept_features(self) -> None:
        """A target that is kept has to come again as it was, and a CUDA graph cannot look anything up."""
        data, where = self.data, "with loss.vgg_kept_gib"
        require(not data.flip, "data.flip", True, f"false {where}: mirrored targets are others")
        expected = f"scale_width, none or a crop of the load size {where}: another part would be another target"
        require(not data.cuts_by_chance, "data.preprocess", data.preprocess, expected)
        require(not self.train.cuda_graph, "train.cuda_graph", True, f"false {where}")

    def _check_sizes(self) -> None:
        """The sizes that the user typed against what the networks can halve."""
        multiple, least = self.size_multiple, self.min_size
        if self.data.preprocess in SIZED_BY_CROP:
            sizes = {"crop_width": self.data.crop_width, "crop_height": self.data.crop_height}
        elif self.data.preprocess == "scale_width":
            sizes = {"load_width": self.data.load_width}
        else:
            sizes = {}
        for key, size in sizes.items():
            nearest = max(least, round(size / multiple) * multiple)
            expected = f"a multiple of {multiple}, at least {least}, for this generator; for instance {nearest}"
            require(size % multiple == 0 and size >= least, f"data.{key}", size, expected)

    @property
    def size_multiple(self) -> int:
        """What the sides of an image must be multiples of, in pixels."""
        generator = self.generator
        halvings = generator.n_downsamplings + (generator.n_enhancers if generator.name == "local" else 0)
        return 2 ** max(halvings, self.features.n_downsamplings if self.has_encoder else 0)

    @property
    def has_encoder(self) -> bool:
        """Whether the generator has a feature encoder that is trained with it."""
        return self.features.n_channels > 0 and self.features.origin == "encoded"

    @property
    def min_size(self) -> int:
        """The shortest side of an image, in pixels: reflection at the lowest resolution needs a second pixel there."""
        return self.size_multiple * (1 if self.generator.name == "unet" else 2)

    @property
    def n_validation_samples(self) -> int:
        """Samples that are measured in each validation, of which the first log.n_images are shown."""
        return max(self.metrics.n_samples or 0, self.log.n_images)

    @property
    def batches_per_step(self) -> int:
        """Batches of a process that one step takes."""
        return self.train.accumulation_steps * self.train.discriminator_steps

    @property
    def total_epochs(self) -> int:
        """Epochs at the full learning rate and epochs of its decay."""
        return self.train.epochs + self.train.decay_epochs
