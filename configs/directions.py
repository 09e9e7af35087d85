"""Settings as the networks of a direction see them: source is what is translated, target what it becomes."""

from dataclasses import replace
from typing import Literal

from configs.schema import Config
from configs.schema.sides import RGB_CHANNELS

Direction = Literal["AtoB", "BtoA"]
DIRECTIONS: tuple[Direction, ...] = ("AtoB", "BtoA")
ANY_VALUES = "float32.tif"  # holds them, with any number of channels


def in_direction(config: Config, direction: str | None) -> Config:
    """Return the settings of a direction: for BtoA those of AtoB, with the sides of the data exchanged.

    `data.target_files` is of side B alone: images of side A that are not 8-bit RGB become ANY_VALUES.
    """
    if direction != "BtoA":
        return config
    data = config.data
    is_8_bit = data.source_range is None and data.source_channels in RGB_CHANNELS
    exchanged = replace(
        data,
        direction="AtoB" if data.direction == "BtoA" else "BtoA",
        source_channels=data.target_channels,
        target_channels=data.source_channels,
        source_range=data.target_range,
        target_range=data.source_range,
        target_files=None if is_8_bit else ANY_VALUES,
    )
    return replace(config, data=exchanged)
