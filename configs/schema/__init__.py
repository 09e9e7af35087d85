"""Every setting of the application: its type, default, meaning, unit, and the check of its value.

The sections are frozen dataclasses; a wrong value raises ConfigError when a section is made, so a `Config` that
exists is valid. Only entry points and configs/build.py read it: everything below them takes named, typed arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from configs.schema.checks import Section, require
from configs.schema.data import DataConfig
from configs.schema.loss import ContrastiveConfig, CycleConfig, LossConfig
from configs.schema.method import MethodConfig, check_method
from configs.schema.networks import DiscriminatorConfig, FeaturesConfig, GeneratorConfig, InitConfig, StyleConfig
from configs.schema.run import CheckpointConfig, LogConfig, MetricsConfig, RunConfig
from configs.schema.sides import RGB_CHANNELS
from configs.schema.train import AmpConfig, AugmentationConfig, OptimizerConfig, TrainConfig

if TYPE_CHECKING:
    from losses.adversarial import Penalty
    from losses.objective import LossTerm


def _losses() -> Mapping[str, "LossTerm"]:
    from losses import GENERATOR_LOSSES  # imports torch, which most errors need not wait for

    return GENERATOR_LOSSES


def _penalties() -> Mapping[str, "Penalty"]:
    from losses import PENALTIES

    return PENALTIES


@dataclass(frozen=True)
class Config(Section, prefix=""):
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
    contrastive: ContrastiveConfig = field(default_factory=ContrastiveConfig)
    cycle: CycleConfig = field(default_factory=CycleConfig)
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
        has_loss = any(self.loss.weights_of_images.values()) or self.method.declaration.sections
        require(bool(has_loss), "loss", "all 0", "at least one loss weight above 0")
        loss, opt_level, is_side_by_side = self.loss, self.amp.opt_level, self.data.layout == "side_by_side"
        if opt_level not in ("O0", "O1"):
            for name in self.penalties:
                expected = f"O0 or O1 with loss.{name}, whose gradients need float32"
                self.require(not _penalties()[name].needs_float32, "amp.opt_level", expected)
        if opt_level == "O3":
            expected = "0 with amp.opt_level=O3: its weights are too coarse to average"
            self.require(self.train.ema_decay == 0, "train.ema_decay", expected)
        if self.generator.scale != 1:
            expected = "1 with data.layout=side_by_side, whose halves have one size; use data.layout=paired_folders"
            self.require(not is_side_by_side, "generator.scale", expected)
            expected = "1 with features.n_channels, which are encoded at the size of the target"
            self.require(self.features.n_channels == 0, "generator.scale", expected)
        if self.features.n_channels:
            if self.features.origin == "precomputed":
                expected = "encoded where data.layout is not paired_folders"
                self.require(self.data.layout == "paired_folders", "features.origin", expected)
            self.require(not is_side_by_side, "features.n_channels", "0: side_by_side has neither instances nor labels")
            is_possible = self.data.has_labels or self.features.regions != "labels"
            self.require(is_possible, "features.regions", "instances where data.n_classes is 0")
        if self.data.target_channels not in RGB_CHANNELS:
            self._check_other_channels()
        if self.style.channels:
            self.require(self.generator.name == "spade", "style.channels", "0 where generator.name is not spade")
            expected = "0 with features.n_channels: a generator has one of the two"
            self.require(self.features.n_channels == 0, "style.channels", expected)
        if "segmentation" in (self.discriminator.name, loss.gan_mode):
            self._check_segmentation()
        is_possible = self.generator.name == "local" or self.train.freeze_global_epochs == 0
        self.require(is_possible, "train.freeze_global_epochs", "0 where generator.name is not local")

    def _check_other_channels(self) -> None:
        channels = f"with data.target_channels={self.data.target_channels}"
        if sees_rgb := [name for name in self.loss_weights if _losses()[name].channels == RGB_CHANNELS]:
            self.require(False, f"loss.{sees_rgb[0]}", f"0 {channels}: its network sees 1 or 3 channels")
        self.require(not self.metrics.extra, "metrics.extra", f"[] {channels}: their networks see 1 or 3 channels")
        expected = f"null {channels}: label maps are drawn in colours"
        self.require(self.metrics.label_colors is None, "metrics.label_colors", expected)

    def _check_segmentation(self) -> None:
        for key, other in (("discriminator.name", "loss.gan_mode"), ("loss.gan_mode", "discriminator.name")):
            self.require(attrgetter(key)(self) == "segmentation", key, f"segmentation with {other}=segmentation")
        expected = "above 0 with discriminator.name=segmentation, which classifies pixels: it needs label maps"
        self.require(self.data.has_labels, "data.n_classes", expected)
        wrong = [name for name in self.loss_weights if _losses()[name].needs_features]
        wrong += [name for name in self.penalties if not _penalties()[name].classifies_pixels]
        for name in wrong:
            self.require(False, f"loss.{name}", "0 with discriminator.name=segmentation")
        is_possible = not self.loss.labelmix or self.train.pool_size == 0
        self.require(is_possible, "train.pool_size", "0 with loss.labelmix, which mixes images of a pair")

    def direction(self, wanted: str | None) -> str | None:
        """Return the method's direction for the direction that the user names; None is the default direction.

        A run with one generator has data.direction as a second name for its only direction.
        """
        return None if wanted == self.data.direction and wanted not in self.method.translators else wanted

    def data_of(self, direction: str | None) -> DataConfig:
        """Return the data as the translator of a direction sees them: for BtoA, sources and targets are exchanged.

        Raises:
            ConfigError: the method has no such direction.
        """
        self.method.translator(direction)
        return self.data.reversed if direction == "BtoA" else self.data

    @property
    def has_encoder(self) -> bool:
        """Whether the generator has a feature encoder that is trained with it."""
        return self.features.n_channels > 0 and self.features.origin == "encoded"

    @property
    def loss_weights(self) -> dict[str, float]:
        """The weights of the generator's losses that are computed, by name."""
        return self.loss.weights_for(self.method.declaration.data, has_style=self.style.channels > 0)

    @property
    def penalties(self) -> dict[str, float]:
        """The weights of the discriminator's penalties that are set, by name."""
        return {name: weight for name, weight in self.loss.penalties.items() if weight}

    @property
    def batches_per_step(self) -> int:
        """Batches of a process that one step takes."""
        return self.train.accumulation_steps * self.train.discriminator_steps

    @property
    def total_epochs(self) -> int:
        """Epochs at the full learning rate and epochs of its decay."""
        return self.train.epochs + self.train.decay_epochs
