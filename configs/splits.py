"""The splits of the data set, including training samples kept for validation, and the cache of decoded samples."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from configs.build import build_preprocessing, data_facts
from configs.data_facts import (
    EIGHT_BITS,
    allowing_missing,
    named_classes,
    number_of_classes,
    slice_rule,
    volume_patterns,
)
from configs.schema import Config
from configs.schema.data import fits_file
from data import LAYOUTS
from data.batch import DataError, LoadingError
from data.cache import CachedLayout, SampleCache
from data.files.image_files import StoredForm, is_8_bit_rgb, read_stored
from data.files.tiff_tags import TIFF_SUFFIXES
from data.folder import Blob, data_set_folder
from data.layout import Layout, PairingError
from data.loader import max_bad_samples
from data.map_reader import fitting, read_part, stack_files
from data.preprocessing import no_data
from data.validation_split import possible_shares, split_validation
from data.volume_checks import value_ranges
from utils.errors import ConfigError
from utils.files import expanded
from utils.log import logger
from utils.signatures import accepted, argument_names
from utils.text import exact

TRAIN = "train"
HELD_BACK = "held_back"  # split of the training samples that are kept for validation
SHARED_MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
_MEASURED_SAMPLES = 8
_USER = os.getuid() if hasattr(os, "getuid") else 0


def validation_split(config: Config) -> str | None:
    """Return the name of the data set's validation split; None if there is no such split."""
    return config.data.validation_split or ("val" if has_split(config, "val") else None)


def translated_split(config: Config) -> str:
    """Return the default split of test.py: val if the data set has val but no test, otherwise test."""
    return "val" if has_split(config, "val") and not has_split(config, "test") else "test"


def has_split(config: Config, split: str) -> bool:
    """Return whether a split exists. HELD_BACK exists if training samples are kept for validation."""
    is_held_back = split == HELD_BACK and config.train.validation_share > 0 and validation_split(config) is None
    return is_held_back or _is_in_data_set(config, split)


def _is_in_data_set(config: Config, split: str) -> bool:
    has_split = LAYOUTS[config.data.layout].has_split
    return has_split(split, **_layout_arguments(has_split, config))


def open_split(
    config: Config, split: str, *, needs_targets: bool, needs_labels: bool = False, allows_missing: bool = False
) -> Layout:
    """Return the samples of a split. Targets that exist are read even if `needs_targets` is false.

    needs_labels: Whether to read label maps too, if sources are images.
    allows_missing: Whether sources may have pixels without data. The caller must fill these pixels.

    Raises:
        DataError: the split does not exist, a folder is missing or empty, or the partner file of a pair is missing.
    """
    if split == HELD_BACK and not _is_in_data_set(config, split):
        if has_split(config, split):
            train = open_split(config, TRAIN, needs_targets=needs_targets, allows_missing=allows_missing)
            _, held_back = split_validation(train, config.train.validation_share, config.train.validation_group)
            if len(held_back):
                return held_back
        raise DataError(f"split {split}: train.validation_share leaves this split empty. Choose another split.")
    facts = data_facts(config)
    needs_instances = facts.conditioning.needs_instances
    storage = allowing_missing(facts.storage) if allows_missing else facts.storage
    open_layout = LAYOUTS[config.data.layout].open
    arguments = _layout_arguments(
        open_layout,
        config,
        seed=config.run.seed,
        needs_targets=needs_targets,
        needs_instances=needs_instances,
        needs_features=facts.conditioning.features == "precomputed",
        needs_labels=needs_labels,
        reader=facts.map_reader(storage, needs_instances=needs_instances),
        target_scale=config.generator.scale,
    )
    return open_layout(split, **arguments)


def _layout_arguments(function: Callable[..., Any], config: Config, **facts: Any) -> dict[str, Any]:
    """Return the arguments of `function`, with values from section `data` and from `facts`."""
    data = config.data
    values = vars(data) | {"n_classes": number_of_classes(data, named_classes(data)), **facts}
    values |= {"root": data_set_folder(data.root)} if "root" in argument_names(function) else {}
    values |= {"patterns": volume_patterns(data), "slice_rule": slice_rule(data)} if data.has_volumes else {}
    return accepted(function, values)


def _usable_split(config: Config, split: str, *, needs_labels: bool = False) -> Layout:
    """Return a split for training. With data.on_bad_sample=skip, leave out patients with unusable volumes."""
    try:
        return open_split(config, split, needs_targets=True, needs_labels=needs_labels)
    except PairingError as error:
        n_patients = len(set(error.rest.groups)) + len(error.problems)
        may_skip = config.data.has_volumes and config.data.on_bad_sample == "skip" and len(error.rest)
        if not may_skip or len(error.problems) > max_bad_samples(n_patients):
            raise
        for problem in error.problems:
            logger.warning("skipped a patient: %s", problem)
        return error.rest


def check_has_split(config: Config, split: str, other_choice: str = "") -> None:
    """Raise DataError with the names of the existing splits if `split` does not exist.

    other_choice: Another remedy for the message, in addition to the split names.
    """
    if has_split(config, split):
        return
    data = config.data
    known = dict.fromkeys(["train", "val", "test", data.validation_split or "val", HELD_BACK])
    choices = " or ".join(f"--split {name}" for name in known if has_split(config, name))
    place = f"data.root={data.root}" if data.root else data.layout
    raise DataError(f"{place}: has no split {split!r}. Choose {', or '.join(filter(None, [choices, other_choice]))}.")


def check_is_complete(config: Config, layout: Layout) -> None:
    """Raise ConfigError if images are not 8-bit RGB and have no range. The message names the settings to add.

    layout: Training split. A few of its samples are measured.
    """
    if found := measured_settings(config, layout):
        texts = (f"[{','.join(map(exact, value))}]" if isinstance(value, list) else value for value in found.values())
        settings = " ".join(f"data.{key}={text}" for key, text in zip(found, texts, strict=True))
        what, other = "images that are not 8-bit RGB", ""
        if config.data.has_volumes:
            what, other = "values without a range", ", or data.source_range=volume for MR" * ("source_range" in found)
        raise ConfigError(f"data.root={config.data.root}: has {what}. Add {settings}{other}")


def measured_settings(config: Config, layout: Layout) -> dict[str, Any]:
    """Measure a few samples, and return the `data` settings that are missing for images other than 8-bit RGB.

    A range is the lowest and the highest value of a channel. Pixels without data are ignored.

    Raises:
        DataError: a file cannot be used, and data.on_bad_sample is error.
    """
    data, measured = config.data, dict[str, Any]()
    if data.has_volumes:
        ranges = {f"{kind}_range": bounds for kind, bounds in value_ranges(layout).items()}
        return {key: bounds for key, bounds in ranges.items() if getattr(data, key) is None}
    for side, n_channels in (("source", data.source_channels), ("target", data.target_channels)):
        is_missing = getattr(data, f"{side}_range") is None
        first = _image_files(layout, 0, side) if is_missing and len(layout) else []
        if not first or (len(first) == 1 and is_8_bit_rgb(first[0])):
            continue
        form = StoredForm(n_channels, f"data.{side}_channels", is_8_bit=False)
        channels = list(zip(*_read_some(layout, side, form, skips_bad=data.on_bad_sample == "skip"), strict=True))
        if all(image.dtype == np.uint8 for images in channels for image in images):
            continue
        measured[f"{side}_range"] = [bound for images in channels for bound in _bounds(images)]
        if side == "target" and data.target_files is None:
            measured["target_files"] = _target_files(first[0], str(channels[0][0].dtype), n_channels)
    return measured


def _image_files(layout: Layout, index: int, side: str) -> Sequence[Blob]:
    """Return the image files of a sample's source or target; empty for label maps and synthetic samples."""
    files = layout.provenance(index).files
    if side == "source" and (stack := stack_files(layout, index)):
        return stack
    return [files[side]] if side in files and not (side == "source" and layout.n_classes) else []


def _read_some(layout: Layout, side: str, form: StoredForm, *, skips_bad: bool) -> list[list[np.ndarray]]:
    """Return the channels of a few sources or targets, without pixels that have no data.

    If no sample can be read, raise the first DataError even if `skips_bad` is true.
    """
    found: list[list[np.ndarray]] = []
    problem: DataError | None = None
    for index in dict.fromkeys(np.linspace(0, len(layout) - 1, _MEASURED_SAMPLES).astype(int).tolist()):
        files = _image_files(layout, index, side)
        try:
            if len(files) == 1:
                parts = [read_stored(files[0], form)]
            else:
                parts = list(fitting([read_part(file, form) for file in files], files, form))
        except DataError as error:
            if isinstance(error, LoadingError) or not skips_bad:
                raise
            problem = problem or error
            continue
        found.append([channel for image, file in zip(parts, files, strict=True) for channel in _with_data(image, file)])
    if problem and not found:
        raise problem
    return found


def _with_data(image: Tensor, file: Blob) -> np.ndarray:
    """Return those pixels of a (C, H, W) image that have data, as (C, n). If no pixel has data, return all."""
    values, found = image.flatten(1).numpy(), no_data(image, file)
    has_data = (values != values.dtype.type(found[0])).all(axis=0) if found else np.ones(values.shape[1], bool)
    return values[:, has_data] if has_data.any() else values


def _bounds(values: Sequence[np.ndarray]) -> list[float]:
    """Return the lowest and the highest value of a channel; 0 and 255 if all files of the channel have 8 bits."""
    if all(image.dtype == np.uint8 for image in values):
        return [*EIGHT_BITS]
    low = min(float(str(image.min())) for image in values)  # str gives 0.1, not 0.10000000149
    high = max(float(str(image.max())) for image in values)
    return [low, high if high > low else low + max(1.0, abs(low) / 2**20)]  # adding 1 can be lost in float32


def _target_files(file: Blob, kind: str, n_channels: int) -> str:
    """Return the value of data.target_files that suits the target `file`, whose data type is `kind`."""
    if (suffix := file.suffix.lower()) in TIFF_SUFFIXES:
        return f"{kind}.tif"
    is_png = suffix != ".npy" and kind in ("uint8", "uint16") and fits_file(f"{kind}.png", n_channels)
    return f"{kind}.{'png' if is_png else 'npy'}"


def cached_split(config: Config, layout: Layout, run_folder: Path) -> Layout | None:
    """Return `layout` with a cache for each domain, or None if data.cache is none."""
    folder = cache_folder(config, run_folder)
    if folder is None or config.data.has_volumes:  # layouts of volumes have their own cache
        return None
    cache = SampleCache(folder, spare_share=0.5 if config.data.cache == "memory" else 0.1)
    preprocessing = build_preprocessing(config)
    return layout.by_side(lambda side: CachedLayout(side, preprocessing, cache))


def training_split(config: Config, layout: Layout, run_folder: Path) -> Layout:
    """Return the training split, with its cache if data.cache is set. Create the cache folder."""
    folder = cache_folder(config, run_folder)
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"data.cache: cannot create {folder}: {error.strerror}") from error
    return cached_split(config, layout, run_folder) or layout


def cache_folder(config: Config, run_folder: Path) -> Path | None:
    """Return the folder of cached samples, or None without a cache. All processes of a run share the folder."""
    match config.data.cache:
        case "none":
            return None
        case "memory":
            run = hashlib.sha256(str(run_folder.resolve()).encode()).hexdigest()[:16]
            return SHARED_MEMORY / f"pairgan-{_USER}-{run}"
        case place:
            return expanded("~/.cache/pairgan" if place == "disk" else place, "data.cache") / "samples"


@dataclass(frozen=True)
class Splits:
    """The training samples and the validation samples of a run.

    validation_name: Split of the validation samples. TRAIN: training samples are also used for validation.
        HELD_BACK: train.validation_share keeps training samples for validation.
    """

    train: Layout
    validation: Layout
    validation_name: str


def open_splits(config: Config) -> Splits:
    """Return the splits of a run. Raise ConfigError if train.validation_share leaves training or validation empty."""
    share = config.train.validation_share
    train = _usable_split(config, TRAIN, needs_labels=config.loss.outside_mask > 0)
    own, group = validation_split(config), config.train.validation_group
    if own and own != TRAIN:
        return Splits(train, _usable_split(config, own), own)
    if own or not share:
        return Splits(train, train, TRAIN)
    rest, held_back = split_validation(train, share, group)
    if len(rest) and len(held_back):
        return Splits(rest, held_back, HELD_BACK)
    least, most = possible_shares(train, group)
    possible = f"a number from {exact(least)} to {exact(most)}" if least <= most else "0 (there are too few samples)"
    raise ConfigError(f"train.validation_share is {exact(share)}, expected {possible}, or data with a split named val")
