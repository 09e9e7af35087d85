"""The colours of classes, for label maps that are RGB pictures. Imports nothing slow."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from utils.errors import ConfigError
from utils.files import expanded
from utils.yaml_file import read_yaml, shortened

if TYPE_CHECKING:
    from torch import Tensor


class ClassColor(NamedTuple):
    """A class of a data set, its colour in hexadecimal digits, and whether segmentation scores include the class."""

    name: str
    color: str
    is_evaluated: bool


_TABLES: Any = read_yaml(Path(__file__).with_suffix(".yaml"))
DATA_SETS = {
    data_set: tuple(ClassColor(name, text[:6], is_evaluated=len(text) == 6) for name, text in table.items())
    for data_set, table in _TABLES.items()
}
CITYSCAPES = DATA_SETS["cityscapes"]
IGNORED = "ignored"
MAX_CLASSES = 1000
_EXPECTED = (
    f"expected {', '.join(DATA_SETS)}, or a YAML file with lines such as road: [128, 64, 128], and "
    f"{IGNORED}: [[0, 0, 0]] for colours that scores ignore"
)


@dataclass(frozen=True)
class LabelColors:
    """The colours of K classes.

    origin: Name of the data set, file or setting that defines the colours.
    rgb: The K RGB colours of the classes, followed by I colours of pixels that scores ignore.
    """

    origin: str
    names: tuple[str, ...]
    rgb: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, table: Mapping[Any, Any], origin: str, where: str) -> "LabelColors":
        """Return the colours in a table: a colour for each class name, and a list of ignored colours.

        where: Name of the table, for messages.

        Raises:
            ConfigError: The table does not map names to RGB colours.
        """
        values = dict(table)
        ignored = values.pop(IGNORED, [])
        if not 2 <= len(values) <= MAX_CLASSES:
            raise ConfigError(f"{where} has {len(values)} classes, expected 2 to {MAX_CLASSES}")
        colors = [*values.values(), *(ignored if isinstance(ignored, list) else [ignored])]
        names = [*map(str, values), *[IGNORED] * len(colors)]
        for key, color in zip(names, colors, strict=False):
            are_levels = isinstance(color, list) and [type(level) for level in color] == [int] * 3
            if not are_levels or min(color) < 0 or max(color) > 255:
                raise ConfigError(f"{where}: {key} is {color}, expected [R, G, B], each 0 to 255")
        if twice := {tuple(color) for color in colors if colors.count(color) > 1}:
            raise ConfigError(f"{where}: {list(min(twice))} occurs twice: keep one")
        return cls(origin, tuple(map(str, values)), tuple((red, green, blue) for red, green, blue in colors))

    def table(self) -> dict[str, Any]:
        """Return these colours as a table for `of`."""
        values = [list(color) for color in self.rgb]
        table: dict[str, Any] = dict(zip(self.names, values, strict=False))
        return table | ({IGNORED: values[self.n_classes :]} if len(values) > self.n_classes else {})

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return len(self.names)

    @cached_property
    def colors(self) -> "Tensor":
        """The colours in `rgb`, (K + I, 3) uint8."""
        import torch  # slow

        return torch.tensor(self.rgb, dtype=torch.uint8)

    def classes_of(self, picture: "Tensor", *, may_ignore: bool) -> "Tensor":
        """Return the class with the nearest colour, (H, W) int64, for each pixel of a (3, H, W) uint8 picture.

        may_ignore: Whether ignored colours count as class K. Set this to False for translated images.
        """
        import torch  # slow

        table = (self.colors if may_ignore else self.colors[: self.n_classes]).float()
        red, green, blue = picture.flatten(1).int()
        packed, back = (red * 2**16 + green * 2**8 + blue).unique(return_inverse=True)
        pixels = torch.stack([packed // 2**16, packed // 2**8 % 2**8, packed % 2**8], dim=1).float()
        nearest = torch.cat([torch.cdist(part, table).argmin(1) for part in pixels.split(2**16)])
        return nearest.clamp_max(self.n_classes)[back].view(picture.shape[1:])


def read_label_colors(name: str, setting: str = "metrics.label_colors") -> LabelColors:
    """Return the colours of the data set `name` ("cityscapes" or "cmp_facades") or of the YAML file `name`.

    setting: Setting or option that contains `name`, for messages.

    Raises:
        ConfigError: There is no such file, or it does not map names to RGB colours.
    """
    if name in DATA_SETS:
        evaluated = {kind.name: kind.color for kind in DATA_SETS[name] if kind.is_evaluated}
        colors = dict.fromkeys((*evaluated.values(), *(kind.color for kind in DATA_SETS[name])))  # without duplicates
        rgb = tuple((red, green, blue) for red, green, blue in map(bytes.fromhex, colors))
        return LabelColors(name, tuple(evaluated), rgb)
    path = expanded(name, setting)
    if not path.is_file():
        raise ConfigError(f"{setting}: no such file: {path}; {_EXPECTED}")
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{setting}: {path} holds no classes; {_EXPECTED}")
    return LabelColors.of(values, str(path), f"{setting}: {path}")


def read_color_table(value: object, setting: str) -> dict[str, Any]:
    """Return the table for the value of a setting: a data set's name, a file or a table. For None, return {}.

    Raise ConfigError if the value is none of these, or if `read_label_colors` raises it.
    """
    if value is None or value == {}:
        return {}
    if isinstance(value, Mapping):
        return LabelColors.of(value, setting, setting).table()
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{setting} is {shortened(value) if value else 'empty'}, {_EXPECTED}")
    return read_label_colors(value, setting).table()
