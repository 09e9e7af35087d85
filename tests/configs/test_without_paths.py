import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast, get_type_hints

import torch

from configs.load import config_from_dict, config_to_dict, load_config
from configs.schema import Config
from inference.load import LoadedGenerator

PLACE = "/home/somebody/place"
NAMES = {"run.name", "log.activations", "data.target_files", "data.validation_split"}  # no paths
NAMES |= {"train.validation_group", "generator.name", "discriminator.name", "checkpoint.best", "init.distribution"}


def texts(section: type, prefix: str = "") -> list[str]:
    """The settings that are texts."""
    hints = get_type_hints(section)
    found = []
    for field in fields(cast(Any, section)):
        kind, key = hints[field.name], f"{prefix}{field.name}"
        if is_dataclass(kind):
            found += texts(cast(type, kind), f"{key}.")
        elif kind in (str, str | None):
            found.append(key)
    return found


def test_no_setting_of_a_path_stays(tiny_config: Path) -> None:
    """A new setting that is a text is a path or one of NAMES."""
    known = ["data.layout=paired_folders", "data.n_classes=12", f"data.source_folder=[{PLACE}/a,{{split}}_b]"]
    keys = ["init.generator", "data.instances", *(key for key in texts(Config) if key not in NAMES)]
    given = [f"{key}={PLACE}/x" for key in keys]
    config = load_config(tiny_config, [*known, "data.source_channels=1", "features.n_channels=3", *given])
    loaded = LoadedGenerator(tiny_config, config, 1, torch.nn.Identity())
    assert PLACE not in json.dumps(loaded.facts())
    data = config.without_paths().data
    assert (data.root, data.source_folder, data.target_folder) == (".", ["a", "{split}_b"], "x")
    assert config_from_dict(config_to_dict(config.without_paths()), "x") == config.without_paths()


def test_names_within_the_data_set_and_of_known_colors_stay(tiny_config: Path) -> None:
    config = load_config(tiny_config, ["data.target_folder=photos/{split}", "metrics.label_colors=cityscapes"])
    kept = config.without_paths()
    assert (kept.data.root, kept.data.target_folder) == ("", "photos/{split}")
    assert kept.metrics.label_colors == "cityscapes"


def test_folders_of_a_stack_that_end_alike_stay_apart(tiny_config: Path) -> None:
    stack = f"data.source_folder=[{PLACE}/rgb/{{split}},{PLACE}/depth/{{split}}]"
    given = ["data.layout=paired_folders", f"data.root={PLACE}", stack, "data.source_channels=4"]
    assert load_config(tiny_config, given).without_paths().data.source_folder == ["1/{split}", "2/{split}"]
