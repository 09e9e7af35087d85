"""Nested values that come from outside, which may repeat, contain themselves or be deeper than Python can follow."""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

MOST_LEVELS = 100


class NestingError(ValueError, Generic[T]):
    """A value contains itself, or too many levels. value: That value."""

    def __init__(self, reason: str, value: T) -> None:
        super().__init__(reason)
        self.value = value


def distinct_values(root: T, parts: Callable[[T], Sequence[T]]) -> Iterator[tuple[T, int]]:
    """Yield each distinct value of a nesting once, after its parts, with the number of values that it expands to.

    Repetitions count: a file of a few hundred bytes can expand to billions of values.

    parts: Returns the values directly below a value, the same objects in each call.

    Raises:
        NestingError: A value contains itself, or has more than MOST_LEVELS levels below it.
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
    """Return the values directly below a dict, list or tuple, and the keys of a dict; nothing for other values."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list | tuple) else ()
