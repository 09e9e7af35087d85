"""Recognize the layout of a data set from the names of its folders."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from configs.load import config_from_dict
from configs.schema import Config
from configs.splits import open_split
from data import LAYOUTS
from data.batch import DataError
from data.folder import IMAGE_SUFFIXES, SPLITS, Folder, LocalFolder, data_set_folder
from data.layout import PairingError
from data.volumes import PATIENT, find_volumes
from utils.errors import ConfigError
from utils.log import logger

_TARS = "holds tar files. To use them, run python -m tools.convert_data index-shards FOLDER"
_EXPECTED = (
    "expected folders SPLIT_label and SPLIT_img, or SPLIT_A and SPLIT_B, or images that hold source and target. "
    "Name other folders with --config FILE data.source_folder={split}_X data.target_folder={split}_Y"
)
_TREES: Sequence[dict[str, str]] = [
    {"source_folder": "{split}_A", "target_folder": "{split}_B", "mask_folder": "{split}_mask"},
    {"source_folder": "{patient}/mr", "target_folder": "{patient}/ct", "mask_folder": "{patient}/mask"},
]
_EXPECTED_VOLUMES = (
    "holds volumes, but not as train_A/p001.nii.gz and train_B/p001.nii.gz, or p001/mr.nii.gz and p001/ct.nii.gz. Name "
    "the folders with --config configs/mr_to_ct_small.yaml data.root=FOLDER data.source_folder={patient}/NAME "
    "data.target_folder={patient}/NAME"
)
_MR_TO_CT: dict[str, Any] = {"layout": "paired_volumes", "source_channels": 1, "target_channels": 1}
_MR_TO_CT |= {"source_range": "volume", "target_range": [-1024, 3071], "preprocess": "none"}
ANY_CLASSES = 2**31 - 1  # data.n_classes if the user does not set it


def data_set_in(place: Path, n_classes: int | None, overrides: Sequence[str]) -> tuple[Config, dict[str, bool]]:
    """Recognize the layout of a folder. Return its settings, and for each split whether it needs targets.

    n_classes: Number of classes in label maps. None: Allow any id.
    overrides: Settings from the command line.

    Raises:
        ConfigError, DataError: The layout is not recognized, or an option does not fit it.
    """
    if any(text.startswith("data.source_folder=") for text in overrides):
        raise ConfigError("data.source_folder: needs --config FILE, such as configs/paired_folders_256x256.yaml")
    folder = data_set_folder(str(place))
    data: dict[str, Any] = {"root": str(place), "preprocess": "none", "layout": "paired_folders"}
    if names := [name for name in _splits(folder, "_label") if not name.endswith("_A")]:
        number = 0 if any(text.startswith("data.label_colors=") for text in overrides) else ANY_CLASSES
        data |= {"n_classes": n_classes or number, "instance_edges": bool(_splits(folder, "_inst"))}
    elif n_classes is not None:
        raise ConfigError(f"{folder}: has no folder SPLIT_label. Omit --n-classes {n_classes}")
    elif any((folder / f"{split}B").exists() for split in SPLITS):  # CycleGAN's names, such as trainA
        data["layout"], names = "unpaired_folders", [split for split in SPLITS if (folder / f"{split}A").exists()]
    elif not (names := _splits(folder, "_A")):
        data["layout"], names = "side_by_side", [split for split in SPLITS if _has_images(folder / split)]
    if data["layout"] == "paired_folders" and _splits(folder, "_weight"):
        data["weight_folder"] = "{split}_weight"
    if not names and isinstance(folder.path, Path) and _has_images(folder):
        if place.resolve().name.endswith(("_A", "_B", "_label", "_img")):
            raise DataError(f"{folder}: holds only one image of each pair. Name the data set: {place.resolve().parent}")
        data["root"], names = str(place.resolve().parent), [place.resolve().name]
    if not names:
        raise DataError(f"{folder}: {_TARS if next(place.rglob('*.tar'), None) else _EXPECTED}")
    return _settings(data, names, overrides), {name: name != "test" for name in names}


def volumes_in(place: Path, overrides: Sequence[str]) -> tuple[Config, dict[str, bool]] | None:
    """Recognize a folder of volumes. Return the same as `data_set_in`, or None for other folders.

    Raises:
        DataError: Sources and targets are not recognized.
    """
    folder = data_set_folder(str(place))
    if not isinstance(folder, LocalFolder):
        return None
    for tree in _TREES:
        if splits := [name for name in SPLITS if find_volumes(folder, name, tree["source_folder"])]:
            found = {key: pattern for key, pattern in tree.items() if find_volumes(folder, splits[0], pattern)}
            config = _settings(_MR_TO_CT | {"root": str(place)} | found, splits, overrides)
            if config.data.layout == "paired_volumes":
                text = " ".join(f"data.{key}={pattern}" for key, pattern in found.items())
                logger.info("assuming MR and CT with %s. To train, add this to --config configs/mr_to_ct.yaml", text)
            return config, {name: name != "test" for name in splits}
    if find_volumes(folder, "train", PATIENT):
        raise DataError(f"{folder}: {_EXPECTED_VOLUMES}")
    return None


def _settings(data: Mapping[str, Any], splits: Sequence[str], overrides: Sequence[str]) -> Config:
    """Return the settings of a data set. The data set is unpaired if no target has the name of a source."""
    layouts = {data["layout"], *(text.removeprefix("data.layout=") for text in overrides)} & LAYOUTS.keys()
    has_pairs = all(LAYOUTS[name].pairs for name in layouts)
    method = {} if has_pairs else {"method": {"name": "cycle"}, "cycle": {"identity": 0}}
    config = config_from_dict({"data": dict(data)} | method, data["root"], overrides)
    with suppress(DataError):
        try:
            open_split(config, "train" if "train" in splits else splits[0], needs_targets=True)
        except PairingError as error:
            is_named = any(text.startswith("data.layout=") for text in overrides)
            if error.remedy and not error.rest and not is_named:
                layout = data["layout"].replace("paired", "unpaired")
                return _settings({**data, "layout": layout}, splits, overrides)
    return config


def _splits(folder: Folder, suffix: str) -> list[str]:
    """Return the splits that have a folder with this suffix. For example, `train_label` has the suffix `_label`."""
    names = [name.removesuffix(suffix) for name in folder.folders() if name.endswith(suffix) and name != suffix]
    # train_A_label holds masks for the images in train_A. It does not show that a split has the name train_A
    return [name for name in names if not (name.endswith("A") and (folder / name).exists())]


def _has_images(folder: Folder) -> bool:
    """Return whether a folder contains images. Ignore its subfolders."""
    return any(file.suffix.lower() in IMAGE_SUFFIXES and "/" not in file.name for file in folder.files())
