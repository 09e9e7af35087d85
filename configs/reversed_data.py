"""Data as the networks of direction BtoA see it: what are targets in AtoB are its sources."""

from dataclasses import replace

from configs.schema import DataConfig
from configs.schema.sides import RGB_CHANNELS


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
