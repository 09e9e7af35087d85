"""The settings that an exported file holds: those of its run without the paths of the machine that trained it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from configs.schema import Config
from utils.label_colors import DATA_SETS

ROOT = "."  # data.root where no data set is named; it may not be empty
_PATHS = {  # by section: what becomes its default
    "run": ("root",),
    "data": ("cache",),
    "metrics": ("label_colors",),
    "init": ("generator", "discriminator", "networks"),
}
_FOLDERS = ("source_folder", "target_folder", "instance_folder", "weight_folder")


def without_paths(config: Config) -> Config:
    """Return the settings without paths; names of folders within the data set stay, since its layout needs them."""
    kept = {"label_colors"} if config.metrics.label_colors in DATA_SETS else set()
    sections = {section: _defaults(getattr(config, section), {*keys} - kept) for section, keys in _PATHS.items()}
    data = sections["data"]
    within = {key: _name(getattr(data, key)) for key in _FOLDERS}
    sections["data"] = replace(data, root=ROOT if data.root else "", **within)
    return replace(config, **sections)


def _defaults(section: Any, keys: set[str]) -> Any:
    defaults = type(section)()
    return replace(section, **{key: getattr(defaults, key) for key in keys})


def _name(folders: str | list[str] | None) -> Any:
    """Return folders as they are named within the data set; of one that lies elsewhere the last part."""
    if folders is None:
        return None
    if isinstance(folders, list):
        names = [_name(folder) for folder in folders]
        are_distinct = len(set(names)) == len(names)  # a stack has each folder once; not so rgb/{split}, depth/{split}
        return names if are_distinct else [f"{number}/{name}" for number, name in enumerate(names, 1)]
    path = Path(folders).expanduser()
    return path.name if path.is_absolute() or ".." in path.parts else folders
