"""Functions for untrusted values: strict JSON, and nested values that can be too deep or contain themselves."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")

MOST_LEVELS = 100


def strict_json(value: object, indent: int | None = None) -> str:
    """Return a value as JSON. NaN and infinity become null."""
    return json.dumps(_nulled(value), indent=indent, allow_nan=False)


def read_json(text: str) -> Any:
    """Parse JSON. Numbers that are not finite and integers of more than 64 bits become None.

    Raise ValueError if the text is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(
            text,
            parse_constant=lambda _: None,
            parse_float=lambda number: value if math.isfinite(value := float(number)) else None,
            parse_int=lambda number: value if abs(value := int(number)) < 2**63 else None,
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _nulled(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _nulled(item) for key, item in value.items()}
    return [_nulled(item) for item in value] if isinstance(value, list | tuple) else value


class NestingError(ValueError, Generic[T]):
    """A nested value contains itself or has too many levels. The field `value` is the value where this was found."""

    def __init__(self, reason: str, value: T) -> None:
        super().__init__(reason)
        self.value = value


def distinct_values(root: T, parts: Callable[[T], Sequence[T]]) -> Iterator[tuple[T, int]]:
    """Yield (value, count) for each distinct value in a nested value. The parts of a value come before the value.

    count: Size of the value if it is written out without references. A few hundred bytes can become billions of values.

    parts: Function that returns the values directly inside a value. It must return the same objects in each call.

    Raises:
        NestingError: A value contains itself, or values have more than MOST_LEVELS levels.
    """
    counts: dict[int, int] = {}
    path = [(root, iter(parts(root)))]
    above = {id(root)}
    while path:
        value, rest = path[-1]
        for part in rest:
            if id(part) in above:
                raise NestingError("a value contains itself", part)
            if len(path) > MOST_LEVELS:
                raise NestingError(f"values have more than {MOST_LEVELS} levels", part)
            if id(part) not in counts:
                path.append((part, iter(parts(part))))
                above.add(id(part))
                break
        else:
            path.pop()
            above.remove(id(value))
            counts[id(value)] = 1 + sum(counts[id(part)] for part in parts(value))
            yield value, counts[id(value)]


def plain_parts(value: object) -> Sequence[object]:
    """Return the items of a list or tuple, or the keys and values of a dict. Return () for other values."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list | tuple) else ()
