"""Label maps as pictures: which colour stands for which class."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from utils.errors import ConfigError
from utils.yaml_file import read_yaml

IGNORED = "ignored"
MAX_CLASSES = 1000

# the 19 classes that Cityscapes (Cordts et al. 2016) evaluates, and its colours for what counts for none
_CITYSCAPES = {
    "road": "804080",
    "sidewalk": "f423e8",
    "building": "464646",
    "wall": "66669c",
    "fence": "be9999",
    "pole": "999999",
    "traffic light": "faaa1e",
    "traffic sign": "dcdc00",
    "vegetation": "6b8e23",
    "terrain": "98fb98",
    "sky": "4682b4",
    "person": "dc143c",
    "rider": "ff0000",
    "car": "00008e",
    "truck": "000046",
    "bus": "003c64",
    "train": "005064",
    "motorcycle": "0000e6",
    "bicycle": "770b20",
}
_CITYSCAPES_IGNORED = "000000 6f4a00 510051 faaaa0 e6968c b4a5b4 966464 96785a 00005a 00006e"
# CMP Facades (Tylecek and Sara 2013), as pix2pix has them
_CMP_FACADES = {
    "background": "0000aa",
    "facade": "0000ff",
    "window": "0055ff",
    "door": "00aaff",
    "cornice": "00ffff",
    "sill": "55ffaa",
    "balcony": "aaff55",
    "blind": "ffff00",
    "deco": "ffaa00",
    "molding": "ff5500",
    "pillar": "ff0000",
    "shop": "aa0000",
}


@dataclass(frozen=True)
class LabelColors:
    """The colour of each class.

    origin: where they are from, in words. names: of the K classes. colors: (K + I, 3) uint8 RGB, those of the classes,
    and of what counts for none.
    """

    origin: str
    names: tuple[str, ...]
    colors: Tensor

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.names)

    def classes_of(self, picture: Tensor, *, may_ignore: bool) -> Tensor:
        """(H, W) int64 classes of a (3, H, W) uint8 picture: of the nearest colour, K for one that counts for none.

        may_ignore: False for what a generator made, which has to decide for a class everywhere.
        """
        table = (self.colors if may_ignore else self.colors[: self.n_classes]).float()
        red, green, blue = picture.flatten(1).int()
        packed, back = (red * 2**16 + green * 2**8 + blue).unique(return_inverse=True)
        pixels = torch.stack([packed // 2**16, packed // 2**8 % 2**8, packed % 2**8], dim=1).float()
        nearest = torch.cat([torch.cdist(part, table).argmin(1) for part in pixels.split(2**16)])
        return nearest.clamp_max(self.n_classes)[back].view(picture.shape[1:])


def read_label_colors(name: str) -> LabelColors:
    """The colours of a data set of this name, "cityscapes" or "cmp_facades", or of a YAML file.

    Raises:
        ConfigError: there is no such file, or it is no mapping of names to RGB colours.
    """
    if name == "cityscapes":
        return _of_hex(name, _CITYSCAPES, _CITYSCAPES_IGNORED)
    if name == "cmp_facades":
        return _of_hex(name, _CMP_FACADES, "")
    return _read(Path(name).expanduser())


def _of_hex(origin: str, classes: dict[str, str], ignored: str) -> LabelColors:
    colors = [list(bytes.fromhex(color)) for color in [*classes.values(), *ignored.split()]]
    return LabelColors(origin, tuple(classes), torch.tensor(colors, dtype=torch.uint8))


def _read(path: Path) -> LabelColors:
    expected = (
        "expected cityscapes, cmp_facades, or a YAML file of lines such as road: [128, 64, 128], and of "
        f"{IGNORED}: [[0, 0, 0]] for what counts for no class"
    )
    if not path.is_file():
        raise ConfigError(f"metrics.label_colors is {path}, which is no file: {expected}")
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise ConfigError(f"metrics.label_colors: {path} holds no classes: {expected}")
    ignored = values.pop(IGNORED, [])
    if not 2 <= len(values) <= MAX_CLASSES:
        raise ConfigError(f"metrics.label_colors: {path} has {len(values)} classes, expected 2 to {MAX_CLASSES}")
    if not isinstance(ignored, list) or any(not isinstance(color, list) for color in ignored):
        raise ConfigError(f"metrics.label_colors: {path}: {IGNORED} is {ignored}, expected colours: [[0, 0, 0]]")
    colors = [*values.values(), *ignored]
    names = [*map(str, values), *[IGNORED] * len(colors)]
    for key, color in zip(names, colors, strict=False):
        if not _is_color(color):
            raise ConfigError(f"metrics.label_colors: {path}: {key} is {color}, expected [R, G, B], each 0 to 255")
    if twice := {tuple(color) for color in colors if colors.count(color) > 1}:
        raise ConfigError(f"metrics.label_colors: {path}: {list(min(twice))} is named twice: keep one")
    return LabelColors(str(path), tuple(map(str, values)), torch.tensor(colors, dtype=torch.uint8))


def _is_color(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and all(type(channel) is int and 0 <= channel <= 255 for channel in value)
    )
