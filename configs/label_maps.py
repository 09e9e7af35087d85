"""Label maps as section `data` declares them: their classes, and how they are read."""

from collections.abc import Iterable

from torch import Tensor

from configs.schema import DataConfig
from data import LAYOUTS
from data.layout import ClassTable
from utils.gallery import Swatch
from utils.label_colors import CITYSCAPES, IGNORED, LabelColors
from utils.palette import color_table


def class_table(data: DataConfig) -> ClassTable | None:
    """Return names and colours of the classes, from the data set or data.label_colors; None where neither has them."""
    own, colors = LAYOUTS[data.layout].own_classes, data.colors
    if own is None and colors is not None:
        return ClassTable(colors.names, colors.colors[: colors.n_classes])
    return own


def named_classes(data: DataConfig) -> ClassTable | None:
    """Return the class table, which is that of Cityscapes where label maps hold its 35 ids; None without names."""
    table = class_table(data)
    if table is None and data.n_classes == len(CITYSCAPES):
        return ClassTable(tuple(kind.name for kind in CITYSCAPES), color_table(kind.color for kind in CITYSCAPES))
    return table


def legend(data: DataConfig, of_pictures: LabelColors | None = None) -> list[Swatch]:
    """Return the classes of label maps as a gallery shows them; none where they have no names.

    of_pictures: those of targets that are pictures of label maps, where sources are images.
    """
    table = named_classes(data)
    if table is None:
        return swatches_of(of_pictures.names, of_pictures.colors) if of_pictures and not data.has_labels else []
    swatches = swatches_of(table.names, table.colors)
    return swatches if ignored_id(data) is None else [*swatches, Swatch(IGNORED, "000000")]


def swatches_of(names: Iterable[str], colors: Tensor) -> list[Swatch]:
    """Return classes of these names; `colors` are (K, 3) uint8, or more."""
    return [Swatch(name, bytes(color).hex()) for name, color in zip(names, colors.tolist(), strict=False)]


def ignored_id(data: DataConfig) -> int | None:
    """Return the id of pixels without a class in a map of ids; None where each pixel has one.

    Of label maps that are drawn in colours it is the number of classes.
    """
    colors = data.colors
    if colors is None:
        return data.ignore_id
    return colors.n_classes if len(colors.rgb) > colors.n_classes else None
