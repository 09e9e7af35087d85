"""The settings that an exported file holds: those of its run without the paths of the machine that trained it."""

from dataclasses import replace
from typing import Any

from configs.schema import Config
from configs.schema.run import RunConfig
from utils.label_colors import DATA_SETS
from utils.paths import expanded

ROOT = "."  # data.root where no data set is named; it may not be empty


def without_paths(config: Config) -> Config:
    """Return the settings without paths; names of folders within the data set stay, since its layout needs them."""
    data, colors = config.data, config.metrics.label_colors
    data = replace(
        data,
        root=ROOT if data.root else "",
        cache="none",
        source_folder=_name(data.source_folder),
        target_folder=_name(data.target_folder),
        instance_folder=_name(data.instance_folder),
        weight_folder=_name(data.weight_folder),
    )
    return replace(
        config,
        run=replace(config.run, root=RunConfig.root),
        data=data,
        metrics=replace(config.metrics, label_colors=colors if colors in DATA_SETS else None),
        init=replace(config.init, generator=None, discriminator=None, networks={}),
    )


def _name(folders: str | list[str] | None) -> Any:
    """Return folders as they are named within the data set; of one that lies elsewhere the last part."""
    if folders is None:
        return None
    if isinstance(folders, list):
        names = [_name(folder) for folder in folders]
        are_distinct = len(set(names)) == len(names)  # a stack has each folder once; not so rgb/{split}, depth/{split}
        return names if are_distinct else [f"{number}/{name}" for number, name in enumerate(names, 1)]
    path = expanded(folders, "data.source_folder")
    return path.name if path.is_absolute() or ".." in path.parts else folders
