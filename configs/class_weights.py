"""The weights of classes: loss.class_weights, by name or id."""

from collections.abc import Mapping, Sequence

from configs.schema.checks import require
from utils.errors import ConfigError
from utils.yaml_file import shortened

KEY = "loss.class_weights"
IGNORED = "ignored"  # the name of pixels without a class
_LISTED = 8


def read_class_weights(value: object, key: str) -> object:
    """Return a setting as a mapping of texts: a list has the weights of the classes 0, 1, …; null is empty.

    Raises:
        ConfigError: it is neither a list nor a mapping, or a weight is no number.
    """
    weights = dict(enumerate(value)) if isinstance(value, list) else {} if value is None else value
    expected = "weights of classes such as {car: 4, sky: 0}, or a list of one for each class"
    if not isinstance(weights, Mapping):
        raise ConfigError(f"{key} is {shortened(value)}, expected {expected}")
    for name, weight in weights.items():
        try:
            float(weight)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"{key}: {shortened(name)} has {shortened(weight)}, expected a number") from error
    return {str(name): float(weight) for name, weight in weights.items()}


def class_weights(given: Mapping[str, float], n_classes: int, names: Sequence[str]) -> dict[int, float]:
    """Return the weights other than 1 by class id; that of pixels without a class is at id `n_classes`.

    given: by id or name. names: of the classes, by id; none where they have no names.

    Raises:
        ConfigError: there is no such class.
    """
    if not given:
        return {}
    require(n_classes > 0, KEY, given, "{} where sources are no label maps: they have no classes")
    ids = {str(class_id): class_id for class_id in range(n_classes)} | {IGNORED: n_classes}
    ids |= {name: class_id for class_id, name in enumerate(names)}
    unknown = [name for name in given if name not in ids]
    some = f", names such as {', '.join(names[:_LISTED])}" if names else ""
    require(not unknown, KEY, unknown, f"ids from 0 to {n_classes - 1}{some}, or {IGNORED}; {KEY}={{}} does without")
    weights: dict[int, float] = {}
    for name, weight in given.items():
        require(ids[name] not in weights, KEY, name, "each class once, by its id or by its name")
        weights[ids[name]] = weight
    lacks_all = all(weights.get(class_id) == 0 for class_id in range(n_classes))
    require(not lacks_all, KEY, given, "a class with a weight above 0")
    return {class_id: weight for class_id, weight in weights.items() if weight != 1}
