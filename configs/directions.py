"""The networks of a direction, and the data as those of BtoA see it."""

from dataclasses import replace

from configs.schema import Config, DataConfig
from configs.schema.sides import RGB_CHANNELS
from utils.errors import ConfigError


def translator_name(config: Config, direction: str | None = None) -> str:
    """Return the name of the network that translates in a direction; None: in the method's default one.

    Raises:
        ConfigError: the method trains no translator for it.
    """
    translators = config.method.translators
    chosen = direction or config.method.default_direction
    if chosen not in translators:
        known = ", ".join(translators)
        remedy = f"Leave --direction out, or train another run with data.direction={chosen}"
        raise ConfigError(f"direction {chosen}: method.name={config.method.name} trains {known}. {remedy}.")
    return translators[chosen]


def method_direction(config: Config, wanted: str | None) -> str | None:
    """Return the method's direction for the one that the user names; None is the default direction.

    A run with one generator has data.direction as a second name for its only direction.
    """
    return None if wanted == config.data.direction and wanted not in config.method.translators else wanted


def sides_of(config: Config, direction: str | None) -> DataConfig:
    """Return the data as a translator of a direction takes it: in direction BtoA, targets are what sources are in AtoB.

    Raises:
        ConfigError: the method has no such direction.
    """
    translator_name(config, direction)
    return reversed_data(config.data) if direction == "BtoA" else config.data


def discriminator_name(config: Config, direction: str | None = None) -> str:
    """Return the name of the network that judges what is translated in a direction; None: the default one."""
    way = direction or config.method.default_direction
    return f"discriminator_{way[-1]}" if len(config.method.translators) > 1 else "discriminator"


def direction_of(config: Config, name: str | None) -> str | None:
    """Return the direction in which a network translates, or whose translations it judges; None where it has none."""
    ways = config.method.translators.items()
    return next((way for way, network in ways if name in (network, discriminator_name(config, way))), None)


def reversed_data(data: DataConfig) -> DataConfig:
    """Return the same data with targets as sources.

    data.target_files is of what were the targets: other images are written as files that hold them all.
    """
    is_rgb = data.source_range is None and data.source_channels in RGB_CHANNELS
    return replace(
        data,
        direction="AtoB" if data.direction == "BtoA" else "BtoA",
        source_folder=None if data.is_stacked else data.source_folder,
        source_channels=data.target_channels,
        source_range=data.target_range,
        target_channels=data.source_channels,
        target_range=data.source_range,
        target_files=None if is_rgb else "float32.tif" if data.source_range else "uint8.tif",
    )
