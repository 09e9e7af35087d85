"""Every setting of the application, with its type, default, meaning, unit and check.

The sections are frozen dataclasses. Creating a section with a wrong value raises ConfigError. `configs.rules` checks
combinations of settings when a configuration is loaded. tests/test_layering.py lists the modules outside configs/ that
may use a `Config`. All other modules take named, typed arguments.

Checkpoints and the config.yaml of a run can contain settings of earlier versions. The end of this file lists these
settings with their former defaults.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from configs.schema.checks import Section
from configs.schema.data import DataConfig
from configs.schema.loss import ContrastiveConfig, CycleConfig, LossConfig
from configs.schema.networks import DiscriminatorConfig, FeaturesConfig, GeneratorConfig, InitConfig, StyleConfig
from configs.schema.run import CheckpointConfig, LogConfig, MetricsConfig, RunConfig
from configs.schema.train import AmpConfig, AugmentationConfig, MethodConfig, OptimizerConfig, TrainConfig
from utils.files import expanded
from utils.label_colors import DATA_SETS
from utils.log import logger

ROOT = "."  # data.root in exported files, which have no data set


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

    def direction(self, wanted: str | None) -> str | None:
        """Return the direction for `data_of` and `method.translator` if the user asks for the direction `wanted`.

        If the run has one generator and data.direction=BtoA, return None for BtoA: BtoA is the default direction.
        """
        return None if wanted == self.data.direction and wanted not in self.method.translators else wanted

    def data_of(self, direction: str | None) -> DataConfig:
        """Return the data settings for a direction. For BtoA, sources and targets are exchanged.

        Raises:
            ConfigError: the method has no such direction.
        """
        self.method.translator(direction)
        return self.data.reversed if direction == "BtoA" else self.data

    @property
    def has_encoder(self) -> bool:
        """Whether a feature encoder is trained together with the generator."""
        return self.features.n_channels > 0 and self.features.origin == "encoded"

    @property
    def loss_weights(self) -> dict[str, float]:
        """The weights of the generator's losses that are computed, by name."""
        return self.loss.weights_for(self.method.declaration.data, has_style=self.style.channels > 0)

    @property
    def measured_shift_reach(self) -> int:
        """Largest shift in the metrics of shifted images, in pixels; 0 if these metrics are not computed."""
        reach = self.metrics.shift_reach
        return self.loss.shift_reach if reach is None else reach

    @property
    def penalties(self) -> dict[str, float]:
        """The weights above 0 of the discriminator's penalties, by name."""
        return {name: weight for name, weight in self.loss.penalties.items() if weight}

    @property
    def batches_per_step(self) -> int:
        """Number of batches that each process uses in one step."""
        return self.train.accumulation_steps * self.train.discriminator_steps

    @property
    def total_epochs(self) -> int:
        """Number of epochs at the full learning rate and in its decay."""
        return self.train.epochs + self.train.decay_epochs

    def without_paths(self) -> "Config":
        """Return the settings without paths of this machine, for an exported file.

        Folder names within the data set stay, because its layout needs them.
        """
        data, colors = self.data, self.metrics.label_colors
        data = replace(
            data,
            root=ROOT if data.root else "",
            cache="none",
            source_folder=_folder_name(data.source_folder),
            target_folder=_folder_name(data.target_folder),
            instances=data.instances if data.makes_instances else _folder_name(data.instances),
            weight_folder=_folder_name(data.weight_folder),
            mask_folder=_folder_name(data.mask_folder),
        )
        return replace(
            self,
            run=replace(self.run, root=RunConfig.root),
            data=data,
            metrics=replace(self.metrics, label_colors=colors if colors in DATA_SETS else None),
            init=replace(self.init, networks={}),
        )


def settings_by_key(config: Config) -> dict[str, object]:
    """Return the values by `section.key`, in the order of the schema."""
    sections = vars(config).items()
    return {f"{name}.{key}": value for name, section in sections for key, value in vars(section).items()}


def config_differences(old: Config, new: Config) -> dict[str, tuple[object, object]]:
    """Return the old and the new value of each setting that differs, by `section.key`."""
    after = settings_by_key(new)
    pairs: dict[str, tuple[Any, Any]] = {key: (value, after[key]) for key, value in settings_by_key(old).items()}
    # equal mappings can differ in order, and the order of classes decides their ids
    return {key: (a, b) for key, (a, b) in pairs.items() if a != b or (isinstance(a, dict) and [*a] != [*b])}


def changed_settings(config: Config) -> dict[str, object]:
    """Return the values that differ from their defaults, by `section.key`."""
    return {key: value for key, (_, value) in config_differences(Config(), config).items()}


def _folder_name(folders: str | list[str] | None) -> Any:
    """Return folder names within the data set unchanged, but only the last part of paths outside the data set."""
    if folders is None:
        return None
    if isinstance(folders, list):
        names = [_folder_name(folder) for folder in folders]
        are_distinct = len(set(names)) == len(names)  # false for /rgb/{split} and /depth/{split}
        return names if are_distinct else [f"{number}/{name}" for number, name in enumerate(names, 1)]
    path = expanded(folders, "data.source_folder")
    return path.name if path.is_absolute() or ".." in path.parts else folders


REPLACED: dict[str, str] = {  # new setting: the former settings that became its values, in this order
    "cycle.weights": "cycle.weight_a cycle.weight_b",
    "data.elastic": "data.augment.elastic",
    "data.quarter_turns": "data.augment.quarter_turns",
    "data.rotation_degrees": "data.augment.rotation_degrees",
    "data.zoom": "data.augment.scale",
    "data.synthetic_samples": "data.synthetic.train_samples data.synthetic.val_samples data.synthetic.test_samples",
    "data.synthetic_size": "data.synthetic.height data.synthetic.width",
    "loss.perceptual": "loss.vgg",
    "optimizer.betas": "optimizer.beta1 optimizer.beta2",
    "style.size": "style.height style.width",
}
_FORMER_DEFAULTS = """
augmentation.probability=1.0 augmentation.target=none contrastive.all_negatives=false contrastive.temperature=0.07
contrastive.taps=['stem.0','downs.0.0','downs.1.0','blocks.0','blocks.4'] cycle.weight_a=10.0 cycle.weight_b=10.0
data.augment.color=[] data.augment.elastic=[] data.augment.hue=[] data.augment.jpeg_quality=[] data.augment.noise=[]
data.augment.quarter_turns=false data.augment.rotation_degrees=[] data.augment.scale=[] data.augment.shear_degrees=[]
data.augment.vertical_flip=false data.cache_folder=~/.cache/pairgan data.cache_gib=16.0
data.feature_folder={split}_feat data.instance_classes=[] data.prefetch=2 data.shuffle=full
data.synthetic.height=128 data.synthetic.width=128 data.synthetic.train_samples=1000 data.synthetic.val_samples=16
data.synthetic.test_samples=32 data.test_split=test discriminator.downsample=strided discriminator.init=normal
discriminator.init_gain=0.02 discriminator.max_channels=512 discriminator.spectral_iteration=u_first
generator.init=normal generator.init_gain=0.02 generator.padding=zeros init.encoder=none log.gradient_norms=false
log.histograms=false log.n_images=4 log.show_channels=none loss.class_balance=true
loss.vgg_imagenet_normalization=false loss.vgg_weights=none metrics.alexnet_weights=none
metrics.inception_weights=none optimizer.beta1=0.5 optimizer.beta2=0.999 optimizer.plateau_epochs=5
optimizer.step_epochs=50 optimizer.weight_decay=0.0 run.peer_timeout_s=1800.0 style.height=8 style.width=8
train.async_upload=true train.channels_last=auto train.cudnn_benchmark=true train.freeze_discriminator=[]
train.freeze_generator=[] train.profile_steps=0
"""
REMOVED: dict[str, str] = dict(setting.split("=") for setting in _FORMER_DEFAULTS.split())
FORMER_SECTIONS = ("data.augment", "data.synthetic")
_SUCCESSORS = {key: new for new, former in REPLACED.items() for key in former.split()}
_report = cache(logger.info)  # logs each message once, although a run reads a checkpoint several times


def with_successors(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings, by `section.key`, with the values of replaced settings under their new keys.

    If a setting replaces several former settings, all of them must be present.
    """
    result = dict(settings)
    for new, former in REPLACED.items():
        keys = former.split()
        if settings.keys() >= {*keys}:
            values = [result.pop(key) for key in keys]
            result[new] = values if len(values) > 1 else values[0]
    if "loss.vgg" in settings:  # a base can name another network
        result.setdefault("loss.perceptual_network", "vgg19")
    folder = result.pop("data.instance_folder", None)
    if folder is not None and result.get("data.instances", "files") == "files":
        result["data.instances"] = folder
    if (gain := result.pop("init.gain", None)) is not None and str(gain) != "0.02":
        result["init.distribution"] = f"{result.get('init.distribution', 'normal')}:{gain}"
    if result.get("discriminator.downsample") == result.get("generator.downsample"):
        result.pop("discriminator.downsample", None)
    if result.get("data.instances") == "connected" and result.get("data.instance_classes"):
        result["data.instances"] = result.pop("data.instance_classes")
    return result


def removed_fault(key: str, value: object) -> str | None:
    """Return the error message for a removed setting, or None if `value` is its former default."""
    if str(value).lower().replace(" ", "") == REMOVED[key]:  # REMOVED holds text as in YAML: true, 1.0
        return None
    remedy = f"use {_SUCCESSORS[key]}" if key in _SUCCESSORS else "CHANGELOG.md names its successor"
    return f"{key} is no longer a setting: {remedy}"


def without_removed(settings: Mapping[str, object], origin: str) -> dict[str, object]:
    """Return settings, by `section.key`, without removed settings. Log removed values that were not the default.

    origin: Name of the checkpoint in the log.
    """
    for key, value in settings.items():
        if key in REMOVED and (fault := removed_fault(key, value)):
            _report(f"{origin}: {fault}")
    return {key: value for key, value in settings.items() if key not in REMOVED}
