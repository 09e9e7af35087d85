"""The classes of label maps that are stored as pictures, by their colours. Reading them imports nothing slow."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from utils.errors import ConfigError
from utils.paths import expanded
from utils.yaml_file import read_yaml, shortened

if TYPE_CHECKING:
    from torch import Tensor


class ClassColor(NamedTuple):
    """A class of a data set and its colour, in hexadecimal digits.

    is_evaluated: whether scores count the class.
    """

    name: str
    color: str
    is_evaluated: bool = True


# ids 0 .. 34 of Cityscapes (Cordts et al. 2016)
CITYSCAPES = (
    ClassColor("unlabeled", "000000", is_evaluated=False),
    ClassColor("ego vehicle", "000000", is_evaluated=False),
    ClassColor("rectification border", "000000", is_evaluated=False),
    ClassColor("out of roi", "000000", is_evaluated=False),
    ClassColor("static", "000000", is_evaluated=False),
    ClassColor("dynamic", "6f4a00", is_evaluated=False),
    ClassColor("ground", "510051", is_evaluated=False),
    ClassColor("road", "804080"),
    ClassColor("sidewalk", "f423e8"),
    ClassColor("parking", "faaaa0", is_evaluated=False),
    ClassColor("rail track", "e6968c", is_evaluated=False),
    ClassColor("building", "464646"),
    ClassColor("wall", "66669c"),
    ClassColor("fence", "be9999"),
    ClassColor("guard rail", "b4a5b4", is_evaluated=False),
    ClassColor("bridge", "966464", is_evaluated=False),
    ClassColor("tunnel", "96785a", is_evaluated=False),
    ClassColor("pole", "999999"),
    ClassColor("polegroup", "999999", is_evaluated=False),
    ClassColor("traffic light", "faaa1e"),
    ClassColor("traffic sign", "dcdc00"),
    ClassColor("vegetation", "6b8e23"),
    ClassColor("terrain", "98fb98"),
    ClassColor("sky", "4682b4"),
    ClassColor("person", "dc143c"),
    ClassColor("rider", "ff0000"),
    ClassColor("car", "00008e"),
    ClassColor("truck", "000046"),
    ClassColor("bus", "003c64"),
    ClassColor("caravan", "00005a", is_evaluated=False),
    ClassColor("trailer", "00006e", is_evaluated=False),
    ClassColor("train", "005064"),
    ClassColor("motorcycle", "0000e6"),
    ClassColor("bicycle", "770b20"),
    ClassColor("license plate", "00008e", is_evaluated=False),
)
# CMP Facades (Tylecek and Sara 2013), with the colours of pix2pix's pairs
CMP_FACADES = (
    ClassColor("background", "0000aa"),
    ClassColor("facade", "0000ff"),
    ClassColor("window", "0055ff"),
    ClassColor("door", "00aaff"),
    ClassColor("cornice", "00ffff"),
    ClassColor("sill", "55ffaa"),
    ClassColor("balcony", "aaff55"),
    ClassColor("blind", "ffff00"),
    ClassColor("deco", "ffaa00"),
    ClassColor("molding", "ff5500"),
    ClassColor("pillar", "ff0000"),
    ClassColor("shop", "aa0000"),
)

IGNORED = "ignored"
MAX_CLASSES = 1000
DATA_SETS = {"cityscapes": CITYSCAPES, "cmp_facades": CMP_FACADES}
_EXPECTED = (
    f"expected {', '.join(DATA_SETS)}, or a YAML file of lines such as road: [128, 64, 128], and of "
    f"{IGNORED}: [[0, 0, 0]] for colours that no score counts"
)


@dataclass(frozen=True)
class LabelColors:
    """The colour of each class.

    origin: Name of the data set, file or setting that defines them.
    names: Names of the K classes.
    rgb: K + I colours: of the classes, then of pixels that no score counts.
    """

    origin: str
    names: tuple[str, ...]
    rgb: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, table: Mapping[Any, Any], origin: str, where: str) -> "LabelColors":
        """Return the classes of a table like in a YAML file: colours by name, and a list of ignored colours.

        where: Place of the table, for messages.

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
            raise ConfigError(f"{where}: {list(min(twice))} is there twice: keep one")
        return cls(origin, tuple(map(str, values)), tuple((red, green, blue) for red, green, blue in colors))

    def table(self) -> dict[str, Any]:
        """Return the table that `of` reads."""
        values = [list(color) for color in self.rgb]
        table: dict[str, Any] = dict(zip(self.names, values, strict=False))
        return table | ({IGNORED: values[self.n_classes :]} if len(values) > self.n_classes else {})

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return len(self.names)

    @cached_property
    def colors(self) -> "Tensor":
        """The colours, (K + I, 3) uint8 RGB."""
        import torch  # takes seconds, and a wrong setting is reported without it

        return torch.tensor(self.rgb, dtype=torch.uint8)

    def classes_of(self, picture: "Tensor", *, may_ignore: bool) -> "Tensor":
        """Return the (H, W) int64 classes of a (3, H, W) uint8 picture by the nearest colours, K for ignored pixels.

        may_ignore: Whether a pixel may be ignored. In translated images every pixel has a class.
        """
        import torch  # see `colors`

        table = (self.colors if may_ignore else self.colors[: self.n_classes]).float()
        red, green, blue = picture.flatten(1).int()
        packed, back = (red * 2**16 + green * 2**8 + blue).unique(return_inverse=True)
        pixels = torch.stack([packed // 2**16, packed // 2**8 % 2**8, packed % 2**8], dim=1).float()
        nearest = torch.cat([torch.cdist(part, table).argmin(1) for part in pixels.split(2**16)])
        return nearest.clamp_max(self.n_classes)[back].view(picture.shape[1:])


def read_label_colors(name: str, setting: str = "metrics.label_colors") -> LabelColors:
    """Return the colours of a data set, "cityscapes" or "cmp_facades", or of a YAML file.

    setting: Setting or option that names it, for messages.

    Raises:
        ConfigError: There is no such file, or it does not map names to RGB colours.
    """
    if name in DATA_SETS:
        evaluated = {kind.name: kind.color for kind in DATA_SETS[name] if kind.is_evaluated}
        colors = dict.fromkeys((*evaluated.values(), *(kind.color for kind in DATA_SETS[name])))  # each once
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
    """Return the table of a setting that names a data set or a file, or holds the table; {} for null.

    Raises:
        ConfigError: as for `read_label_colors`.
    """
    if value is None or value == {}:
        return {}
    if isinstance(value, Mapping):
        return LabelColors.of(value, setting, setting).table()
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{setting} is {shortened(value) if value else 'empty'}, {_EXPECTED}")
    return read_label_colors(value, setting).table()
