"""Label maps as section `data` declares them: their classes, the weights of these, and how they are read."""

from collections.abc import Mapping, Sequence

from configs.schema import DataConfig
from configs.schema.checks import require
from data import LAYOUTS
from utils.gallery import Swatch
from utils.label_colors import CITYSCAPES, IGNORED, LabelColors
from utils.pictures import label_colors

_WEIGHTS = "loss.class_weights"
_LISTED = 8  # names in a message


def class_table(data: DataConfig) -> LabelColors | None:
    """Return names and colours of the classes, from the data set or data.label_colors; None where neither has them."""
    return LAYOUTS[data.layout].own_classes or data.colors


def named_classes(data: DataConfig) -> LabelColors | None:
    """Return the class table, which is that of Cityscapes where label maps hold its 35 ids; None without names."""
    table = class_table(data)
    if table is None and data.n_classes == len(CITYSCAPES):
        rgb = tuple((red, green, blue) for red, green, blue in label_colors(data.n_classes).tolist())
        return LabelColors("cityscapes", tuple(kind.name for kind in CITYSCAPES), rgb)
    return table


def legend(data: DataConfig, of_pictures: LabelColors | None = None) -> list[Swatch]:
    """Return the classes of label maps as a gallery shows them; none where they have no names.

    of_pictures: those of targets that are pictures of label maps, where sources are images.
    """
    of_sources = named_classes(data)
    table = of_sources or (None if data.has_labels else of_pictures)
    if table is None:
        return []
    swatches = [Swatch(name, bytes(color).hex()) for name, color in zip(table.names, table.rgb, strict=False)]
    return [*swatches, Swatch(IGNORED, "000000")] if of_sources and ignored_id(data) is not None else swatches


def ignored_id(data: DataConfig) -> int | None:
    """Return the id of pixels without a class in a map of ids; None where each pixel has one.

    Of label maps that are drawn in colours it is the number of classes.
    """
    colors = data.colors
    if colors is None:
        return data.ignore_id
    return colors.n_classes if len(colors.rgb) > colors.n_classes else None


def class_weights(given: Mapping[str, float], n_classes: int, names: Sequence[str]) -> dict[int, float]:
    """Return the weights other than 1 by class id; that of pixels without a class is at id `n_classes`.

    given: by id or name. names: of the classes, by id; none where they have no names.

    Raises:
        ConfigError: there is no such class.
    """
    if not given:
        return {}
    require(n_classes > 0, _WEIGHTS, given, "{} where sources are no label maps: they have no classes")
    ids = {str(class_id): class_id for class_id in range(n_classes)} | {IGNORED: n_classes}
    ids |= {name: class_id for class_id, name in enumerate(names)}
    unknown = [name for name in given if name not in ids]
    some = f", names such as {', '.join(names[:_LISTED])}" if names else ""
    expected = f"ids from 0 to {n_classes - 1}{some}, or {IGNORED}; {_WEIGHTS}={{}} does without"
    require(not unknown, _WEIGHTS, unknown, expected)
    weights: dict[int, float] = {}
    for name, weight in given.items():
        require(ids[name] not in weights, _WEIGHTS, name, "each class once, by its id or by its name")
        weights[ids[name]] = weight
    lacks_all = all(weights.get(class_id) == 0 for class_id in range(n_classes))
    require(not lacks_all, _WEIGHTS, given, "a class with a weight above 0")
    return {class_id: weight for class_id, weight in weights.items() if weight != 1}
