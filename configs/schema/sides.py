"""The settings of sources and targets: their folders, channels, ranges and files."""

import math
from collections.abc import Sequence

from configs.schema.checks import MOST_FRACTION, require
from utils.errors import ConfigError
from utils.limits import MAX_CHANNELS
from utils.yaml_file import shortened

OF_MAPS = ("paired_folders", "unpaired_folders")  # layouts with a file for each kind of map
TWO_SIDES = ("unpaired_folders", "synthetic_day_night")
DIRECTIONS = ("AtoB", "BtoA")
RGB_CHANNELS = (1, 3)  # brightness, and colours
_TYPES = ("uint8", "uint16", "int16", "float32")
_PNG_CHANNELS = {"uint8": (1, 2, 3, 4), "uint16": (1, 3, 4)}
TARGET_FILES = ("uint8.png", "uint16.png", *(f"{kind}.{suffix}" for suffix in ("tif", "npy") for kind in _TYPES))


def read_source_folder(value: object, key: str) -> str | list[str] | None:
    """Return one folder as a text, several as a list, from such or from a text `[A,B]` as it is typed.

    Raises:
        ConfigError: the value is something else.
    """
    if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        value = [name.strip().strip("\"'") for name in value[1:-1].split(",")] if value[1:-1].strip() else []
    if value is None:
        return None
    given = value if isinstance(value, list) else [value]
    names = [str(name) for name in given if isinstance(name, str | int | float)]  # 2024 in YAML is a number
    if not names or len(names) < len(given) or (isinstance(value, list) and not all(name.strip() for name in names)):
        raise ConfigError(f"{key} is {value}, expected a folder, or several such as [{{split}}_rgb,{{split}}_depth]")
    return names if len(names) > 1 else names[0]


def read_instances(value: object, key: str) -> str | list[str]:
    """Return files, connected, or a list of classes as texts; raise ConfigError where the value is something else."""
    classes = value if isinstance(value, list) else []
    if value in ("files", "connected") or (classes and all(isinstance(name, str | int) for name in classes)):
        return [str(name) for name in classes] or str(value)
    raise ConfigError(
        f"{key} is {shortened(value)}, expected files, connected, or a list of classes such as [car,rider]"
    )


def check_stack(folders: Sequence[str], n_channels: int, direction: str, *, has_labels: bool) -> None:
    """Raise ConfigError unless images of several source folders can be stacked.

    n_channels: of all images together, without the label maps of the first folder.
    """
    key, listed = "data.source_folder", f"[{','.join(folders)}]"
    require(len(set(folders)) == len(folders), key, listed, "each folder once")
    expected = "AtoB with several folders in data.source_folder: name those of B there, and A as data.target_folder"
    require(direction == "AtoB", "data.direction", direction, expected)
    n_images, kind = (len(folders) - 1, "images beside label maps") if has_labels else (len(folders), "images")
    expected = f"at least {n_images}: data.source_folder names {n_images} folders of {kind}"
    require(n_channels >= n_images, "data.source_channels", n_channels, expected)


def check_side(side: str, n_channels: int, bounds: Sequence[float] | None, layout: str) -> None:
    """Raise ConfigError unless the channels and the range of the sources or targets can be used."""
    require(1 <= n_channels <= MAX_CHANNELS, f"data.{side}_channels", n_channels, f"1 to {MAX_CHANNELS}")
    if bounds is not None:
        key, expected = f"data.{side}_range", f"[low,high], or low and high of each of {n_channels} channels"
        require(len(bounds) in {2, 2 * n_channels}, key, bounds, expected)
        are_numbers = all(math.isfinite(bound) and abs(bound) <= MOST_FRACTION for bound in bounds)
        are_ranges = all(low < high for low, high in zip(bounds[::2], bounds[1::2], strict=True))
        require(are_numbers and are_ranges, key, bounds, "numbers of which each low is less than its high")
    if layout not in OF_MAPS:
        only = f"data.layout={layout}, which holds 8-bit RGB"
        require(n_channels in RGB_CHANNELS, f"data.{side}_channels", n_channels, f"1 or 3 with {only}")
        require(bounds is None, f"data.{side}_range", bounds, f"null with {only}")


def check_target_files(files: str | None, n_channels: int) -> None:
    """Raise ConfigError unless the files that test.py writes can hold images of `n_channels`."""
    if files is None:
        return
    require(files in TARGET_FILES, "data.target_files", files, f"one of {', '.join(TARGET_FILES)}")
    expected = f"one of tif or npy: such a PNG does not hold {n_channels} channels"
    require(fits_file(files, n_channels), "data.target_files", files, expected)


def fits_file(files: str, n_channels: int) -> bool:
    """Return whether images of `n_channels` can be written as `data.target_files` says."""
    kind, _, suffix = files.partition(".")
    return suffix != "png" or n_channels in _PNG_CHANNELS[kind]
