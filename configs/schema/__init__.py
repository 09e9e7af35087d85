"""Every setting of the application: its type, default, meaning, unit, and the check of its value.

The sections are frozen dataclasses; a wrong value raises ConfigError when a section is made. `configs.rules` checks
combinations of settings when a configuration is loaded. Only entry points and configs/build.py read a `Config`:
everything below them takes named, typed arguments.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from configs.schema.checks import Section
from configs.schema.data import DataConfig
from configs.schema.loss import ContrastiveConfig, CycleConfig, LossConfig
from configs.schema.networks import DiscriminatorConfig, FeaturesConfig, GeneratorConfig, InitConfig, StyleConfig
from configs.schema.run import CheckpointConfig, LogConfig, MetricsConfig, RunConfig
from configs.schema.train import AmpConfig, AugmentationConfig, MethodConfig, OptimizerConfig, TrainConfig
from utils.label_colors import DATA_SETS
from utils.paths import expanded

ROOT = "."  # data.root without a data set; it may not be empty


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

    def without_paths(self) -> "Config":
        """Return the settings for an exported file, without paths of the machine that trained it.

        Names of folders within the data set stay, since its layout needs them.
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
    return dict(_settings_of(config, ""))


def _settings_of(section: Any, prefix: str) -> Iterator[tuple[str, object]]:
    for item in fields(section):
        value = getattr(section, item.name)
        if is_dataclass(value):
            yield from _settings_of(value, f"{prefix}{item.name}.")
        else:
            yield f"{prefix}{item.name}", value


def config_differences(old: Config, new: Config) -> dict[str, tuple[object, object]]:
    """Return the settings that differ: old and new value by `section.key`."""
    before, after = settings_by_key(old), settings_by_key(new)
    return {key: (before[key], after[key]) for key in after if _differ(before[key], after[key])}


def _differ(old: object, new: object) -> bool:
    is_reordered = isinstance(old, Mapping) and isinstance(new, Mapping) and list(old) != list(new)
    return old != new or is_reordered  # the order of classes decides their ids


def changed_settings(config: Config) -> dict[str, object]:
    """Return the values, by `section.key`, that differ from their defaults."""
    return {key: value for key, (_, value) in config_differences(Config(), config).items()}


def _folder_name(folders: str | list[str] | None) -> Any:
    """Return names of folders within the data set; of a folder elsewhere, only the last part."""
    if folders is None:
        return None
    if isinstance(folders, list):
        names = [_folder_name(folder) for folder in folders]
        are_distinct = len(set(names)) == len(names)  # a stack has each folder once; not so rgb/{split}, depth/{split}
        return names if are_distinct else [f"{number}/{name}" for number, name in enumerate(names, 1)]
    path = expanded(folders, "data.source_folder")
    return path.name if path.is_absolute() or ".." in path.parts else folders
