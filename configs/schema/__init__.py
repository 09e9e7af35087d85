"""Every setting of the application: its type, default, meaning, unit, and the check of its value.

The sections are frozen dataclasses; a wrong value raises ConfigError when a section is made, so a `Config` that
exists is valid. Only entry points and configs/build.py read it: everything below them takes named, typed arguments.
"""

from dataclasses import dataclass, field

from configs.schema.augmentation import AUGMENTATIONS, AugmentationConfig
from configs.schema.checks import require
from configs.schema.data import DataConfig, SyntheticConfig
from configs.schema.loss import LossConfig
from configs.schema.method import MethodConfig, check_method
from configs.schema.networks import DiscriminatorConfig, FeaturesConfig, GeneratorConfig, InitConfig, StyleConfig
from configs.schema.optimizer import AmpConfig, OptimizerConfig
from configs.schema.run import EXTRA_METRICS, CheckpointConfig, LogConfig, MetricsConfig, RunConfig
from configs.schema.sides import RGB_CHANNELS
from configs.schema.train import TrainConfig

__all__ = [
    "AUGMENTATIONS",
    "EXTRA_METRICS",
    "AmpConfig",
    "AugmentationConfig",
    "CheckpointConfig",
    "Config",
    "DataConfig",
    "DiscriminatorConfig",
    "FeaturesConfig",
    "GeneratorConfig",
    "InitConfig",
    "LogConfig",
    "LossConfig",
    "MethodConfig",
    "MetricsConfig",
    "OptimizerConfig",
    "RunConfig",
    "StyleConfig",
    "SyntheticConfig",
    "TrainConfig",
    "require",
]


@dataclass(frozen=True)
class Config:
    """The complete configuration of one run."""

    run: RunConfig = field(default_factory=RunConfig)
    data: DataConfig = field(default_factory=DataConfig)
    method: MethodConfig = field(default_factory=MethodConfig)
    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    features: FeaturesConfig = field(default_factory=FeaturesConfig)
    style: StyleConfig = field(default_factory=StyleConfig)
    discriminator: DiscriminatorConfig = field(default_factory=DiscriminatorConfig)
    init: InitConfig = field(default_factory=InitConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    amp: AmpConfig = field(default_factory=AmpConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        """Check what one section wants of another."""
        check_method(self, self.method.name)
        level, decay = self.amp.opt_level, self.train.ema_decay
        if self.loss.gradient_penalty or self.loss.r1:
            expected = "O0 or O1 where loss.gradient_penalty or loss.r1 is set: their gradients need float32"
            require(level in ("O0", "O1"), "amp.opt_level", level, expected)
        if level == "O3":
            require(
                decay == 0, "train.ema_decay", decay, "0 with amp.opt_level=O3: its weights are too coarse to average"
            )
        self._check_scale()
        self._check_features()
        self._check_pictures()
        self._check_style()
        if "segmentation" in (self.discriminator.name, self.loss.gan_mode):
            self._check_segmentation()
        if self.generator.name != "local":
            frozen_epochs = self.train.freeze_global_epochs
            expected = "0 where generator.name is not local"
            require(frozen_epochs == 0, "train.freeze_global_epochs", frozen_epochs, expected)

    def _check_scale(self) -> None:
        scale, layout = self.generator.scale, self.data.layout
        if scale != 1:
            expected = "1 with data.layout=side_by_side, whose halves have one size; python -m tools.convert_data "
            expected += "to-folders makes folders, in which sides may differ"
            require(layout != "side_by_side", "generator.scale", scale, expected)
            expected = "1 with features.n_channels, which are encoded at the size of the target"
            require(self.features.n_channels == 0, "generator.scale", scale, expected)

    def _check_features(self) -> None:
        features, data = self.features, self.data
        if features.n_channels == 0:
            return
        if features.origin == "precomputed":
            expected = "encoded where data.layout is not paired_folders"
            require(data.layout == "paired_folders", "features.origin", features.origin, expected)
        expected = "0: side_by_side has neither instances nor labels"
        require(data.layout != "side_by_side", "features.n_channels", features.n_channels, expected)
        if features.regions == "labels":
            require(self._has_labels, "features.regions", features.regions, "instances where data.n_classes is 0")

    def _check_pictures(self) -> None:
        n_channels, extra = self.data.target_channels, self.metrics.extra
        if n_channels not in RGB_CHANNELS:
            expected = f"0 with data.target_channels={n_channels}: VGG19 sees 1 or 3 channels"
            require(self.loss.vgg == 0, "loss.vgg", self.loss.vgg, expected)
            expected = f"[] with data.target_channels={n_channels}: their networks see 1 or 3 channels"
            require(not extra, "metrics.extra", extra, expected)
            expected = f"null with data.target_channels={n_channels}: label maps are drawn in colours"
            require(self.metrics.label_colors is None, "metrics.label_colors", self.metrics.label_colors, expected)

    def _check_style(self) -> None:
        channels = self.style.channels
        is_possible = channels == 0 or self.generator.name == "spade"
        require(is_possible, "style.channels", channels, "0 where generator.name is not spade")
        is_possible = channels == 0 or self.features.n_channels == 0
        require(is_possible, "style.channels", channels, "0 with features.n_channels: a generator has one of the two")

    def _check_segmentation(self) -> None:
        discriminator, loss, pool_size = self.discriminator.name, self.loss, self.train.pool_size
        expected = "segmentation with loss.gan_mode=segmentation"
        require(discriminator == "segmentation", "discriminator.name", discriminator, expected)
        expected = "segmentation with discriminator.name=segmentation"
        require(loss.gan_mode == "segmentation", "loss.gan_mode", loss.gan_mode, expected)
        expected = "above 0 with discriminator.name=segmentation, which classifies pixels: it needs label maps"
        require(self._has_labels, "data.n_classes", self.data.n_classes, expected)
        for key in ("feature_matching", "gradient_penalty", "r1"):
            value = getattr(loss, key)
            require(value == 0, f"loss.{key}", value, "0 with discriminator.name=segmentation")
        if loss.labelmix:
            require(pool_size == 0, "train.pool_size", pool_size, "0 with loss.labelmix, which mixes images of a pair")

    @property
    def _has_labels(self) -> bool:
        return self.data.has_labels or self.data.layout == "synthetic_facades"

    @property
    def has_encoder(self) -> bool:
        """Whether the generator has a feature encoder that is trained with it."""
        return self.features.n_channels > 0 and self.features.origin == "encoded"

    @property
    def loss_weights(self) -> dict[str, float]:
        """The weights of the generator's losses that are computed, by name."""
        weights = self.loss.weights if self.style.channels else self.loss.weights_of_images
        return {name: weight for name, weight in weights.items() if weight}

    @property
    def batches_per_step(self) -> int:
        """Batches of a process that one step takes."""
        return self.train.accumulation_steps * self.train.discriminator_steps

    @property
    def total_epochs(self) -> int:
        """Epochs at the full learning rate and epochs of its decay."""
        return self.train.epochs + self.train.decay_epochs
