"""Splits of the data set by name, held-back training samples among them, and the cache of decoded samples."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from configs.build import build_preprocessing, data_facts
from configs.data_facts import allowing_missing, named_classes, number_of_classes
from configs.schema import Config
from data import LAYOUTS, data_set_folder
from data.batch import DataError
from data.cache import CachedLayout, SampleCache
from data.held_back import hold_back
from data.layout import Layout
from utils.errors import ConfigError
from utils.paths import expanded
from utils.signatures import accepted, argument_names

TRAIN = "train"
HELD_BACK = "held_back"
DISK_FOLDER = "~/.cache/pairgan"
CACHE_NAME = "samples"
SHARED_MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
_MEMORY_CACHE = f"pairgan-{os.getuid() if hasattr(os, 'getuid') else 0}"


def validation_split(config: Config) -> str | None:
    """Return the data set's split for validation, or None if it has none."""
    return config.data.validation_split or ("val" if has_split(config, "val") else None)


def has_split(config: Config, split: str) -> bool:
    """Return whether there are samples of a split: in the data set, or held back from training for HELD_BACK."""
    holds_back = split == HELD_BACK and config.train.validation_share > 0 and validation_split(config) is None
    return holds_back or _is_in_data_set(config, split)


def _is_in_data_set(config: Config, split: str) -> bool:
    has_split = LAYOUTS[config.data.layout].has_split
    return has_split(split, **_layout_arguments(has_split, config))


def open_split(
    config: Config, split: str, *, needs_targets: bool, needs_labels: bool = False, allows_missing: bool = False
) -> Layout:
    """Return the samples of a split. If targets are not needed, they are read if they exist.

    needs_labels: Whether label maps are read in addition to sources that are images.
    allows_missing: Whether sources may have pixels without data, which the caller fills.

    Raises:
        DataError: the split does not exist, a folder is missing or empty, or a file has no partner.
    """
    if split == HELD_BACK and not _is_in_data_set(config, split):
        if has_split(config, split):
            train = open_split(config, TRAIN, needs_targets=needs_targets, allows_missing=allows_missing)
            _, held_back = hold_back(train, config.train.validation_share, config.train.validation_group)
            if len(held_back):
                return held_back
        raise DataError(f"split {split}: no sample was held back by train.validation_share. Choose another split.")
    facts = data_facts(config)
    needs_instances, storage = facts.conditioning.needs_instances, facts.storage
    arguments = {
        "seed": config.run.seed,
        "needs_targets": needs_targets,
        "needs_instances": needs_instances,
        "needs_features": facts.conditioning.features == "precomputed",
        "needs_labels": needs_labels,
        "reader": facts.map_reader(
            allowing_missing(storage) if allows_missing else storage, needs_instances=needs_instances
        ),
        "target_scale": config.generator.scale,
    }
    layout = LAYOUTS[config.data.layout]
    return layout.open(split, **_layout_arguments(layout.open, config, **arguments))


def _layout_arguments(function: Callable[..., Any], config: Config, **facts: Any) -> dict[str, Any]:
    """Return the settings of section `data` and the facts that a function of a layout has arguments for."""
    data = config.data
    n_classes = number_of_classes(data, named_classes(data))
    values = vars(data) | vars(data.synthetic) | {"n_classes": n_classes, **facts}
    if "root" in argument_names(function):
        values["root"] = data_set_folder(data.root)
    return accepted(function, values)


def check_has_split(config: Config, split: str, other_choice: str = "") -> None:
    """Raise DataError, which names the existing splits, unless a split exists.

    other_choice: What the user may choose instead of another --split.
    """
    if has_split(config, split):
        return
    data = config.data
    known = ["train", "val", "test", data.test_split, *filter(None, [data.validation_split]), HELD_BACK]
    names = [name for name in dict.fromkeys(known) if has_split(config, name)]
    choices = " or ".join(f"--split {name}" for name in names)
    place = f"data.root={data.root}" if data.root else data.layout
    raise DataError(f"{place}: has no split {split!r}. Choose {', or '.join(filter(None, [choices, other_choice]))}.")


def cached_split(config: Config, layout: Layout, run_folder: Path) -> Layout | None:
    """Return the training split with each of its domains behind the cache, or None if data.cache is none."""
    folder = cache_folder(config, run_folder)
    if folder is None:
        return None
    cache = SampleCache(folder, spare_share=0.5 if config.data.cache == "memory" else 0.1)
    preprocessing = build_preprocessing(config)
    return layout.by_side(lambda side: CachedLayout(side, preprocessing, cache))


def training_split(config: Config, layout: Layout, run_folder: Path) -> Layout:
    """Return the training split, behind the cache if the settings ask for one. Create the folder of the cache."""
    if folder := cache_folder(config, run_folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"data.cache: cannot make {folder}: {error.strerror}") from error
    return cached_split(config, layout, run_folder) or layout


def cache_folder(config: Config, run_folder: Path) -> Path | None:
    """Return the folder of cached samples, or None without a cache. Processes of one run share their memory."""
    match config.data.cache:
        case "none":
            return None
        case "memory":
            run = hashlib.sha256(str(run_folder.resolve()).encode()).hexdigest()[:16]
            return SHARED_MEMORY / f"{_MEMORY_CACHE}-{run}"
        case place:
            return expanded(DISK_FOLDER if place == "disk" else place, "data.cache") / CACHE_NAME


def memory_caches() -> list[Path]:
    """Return the folders of data.cache=memory that killed runs of this user have left."""
    return sorted(SHARED_MEMORY.glob(f"{_MEMORY_CACHE}-*"))
