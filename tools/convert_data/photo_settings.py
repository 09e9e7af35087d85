"""How photographs became pairs, kept beside the pairs for the sources of other photographs."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import yaml

from data.batch import DataError
from tools.convert_data.photos import SUFFIXES, PhotoPairs, Source
from utils.atomic_file import replacing
from utils.yaml_file import read_yaml

FILE = "from_photos.yaml"
_HEAD = "# Settings of from-photos, which made these pairs; python -m tools.convert_data source reads them.\n"


def write_photo_settings(folder: Path, pairs: PhotoPairs) -> None:
    """Write the settings of from-photos to the folder of its pairs."""
    with replacing(folder / FILE) as unfinished:
        unfinished.write_text(_HEAD + yaml.safe_dump(asdict(pairs), sort_keys=False), encoding="utf-8")


def read_photo_settings(folder: Path) -> PhotoPairs:
    """Return the settings that made the pairs of a folder.

    Raises:
        DataError: they are not there, or not as from-photos writes them.
        ConfigError: the file is not YAML.
    """
    path = folder / FILE
    remedy = "run from-photos again as before, with --existing keep"
    if not path.is_file():
        what = (
            f"no such file, which from-photos leaves beside its pairs; {remedy}" if folder.is_dir() else "no such file"
        )
        raise DataError(f"{path}: {what}")
    try:
        return _parsed(read_yaml(path))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: not as from-photos writes it; delete it, and {remedy}") from error


def _parsed(values: Any) -> PhotoPairs:
    """Return the settings; raise KeyError, TypeError or ValueError where there are none."""
    pairs = PhotoPairs(
        values["source"], int(values["size"]), float(values["sigma"]), int(values["factor"]), values["suffix"]
    )
    is_known = pairs.source in get_args(Source) and pairs.suffix in SUFFIXES.values()
    if not is_known or min(pairs.size, pairs.sigma, pairs.factor) <= 0:
        raise ValueError(values)
    return pairs


def check_same_settings(folder: Path, pairs: PhotoPairs) -> None:
    """Raise DataError where the pairs of a folder, to which others are to be added, were made with other settings."""
    if not (folder / FILE).is_file():
        return
    known = read_photo_settings(folder).rule
    if known != pairs.rule:
        raise DataError(
            f"{folder}: its pairs were made with {known}, others would be with {pairs.rule}: use the same settings, "
            "another TO, or --existing replace"
        )
