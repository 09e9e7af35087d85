"""Label maps as section `data` declares them: their classes, and how they are read."""

from typing import Any

from configs.schema import DataConfig
from data import LAYOUTS
from data.layout import ClassTable


def class_table(data: DataConfig) -> ClassTable | None:
    """Return names and colours of the classes, from the data set or data.label_colors; None where neither has them."""
    own, colors = LAYOUTS[data.layout].own_classes, data.colors
    if own is None and colors is not None:
        return ClassTable(colors.names, colors.colors[: colors.n_classes])
    return own


def ignored_id(data: DataConfig) -> int | None:
    """Return the id of pixels without a class in a map of ids; None where each pixel has one.

    Of label maps that are drawn in colours it is the number of classes.
    """
    colors = data.colors
    if colors is None:
        return data.ignore_id
    return colors.n_classes if len(colors.colors) > colors.n_classes else None


def label_map_settings(data: DataConfig, *, needs_instances: bool) -> dict[str, Any]:
    """Return how label maps are read, by the names of the layouts' arguments; `n_classes` is not among them."""
    is_divided = needs_instances and data.makes_instances
    return {
        "ignore_id": data.ignore_id,
        "label_colors": data.colors,
        "divided_classes": data.divided_classes if is_divided else None,
    }
