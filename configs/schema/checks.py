"""The checks that sections of the configuration share."""

from collections.abc import Callable
from copy import copy
from dataclasses import field, fields
from operator import attrgetter
from typing import Any, cast

from utils.errors import ConfigError
from utils.yaml_file import shortened

MOST = 2**31 - 1  # the largest whole number in torch and in the file formats
MOST_FRACTION = 1e30  # the largest value of a float setting; float32 ends at 3e38
MOST_HALVINGS = 16  # more than any image allows
MOST_LAYERS = 1000


def setting(default: Any, fits: Callable[[Any], bool], expected: str, **metadata: object) -> Any:
    """Return a dataclass field whose value must satisfy `fits`. `expected` describes valid values in errors."""
    checked = {"expected": lambda value: None if fits(value) else expected, **metadata}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: copy(default), metadata=checked)
    return field(default=default, metadata=checked)


def number(default: float | None, least: float = 0, most: float = MOST, **metadata: object) -> Any:
    """Return a field for None, a whole number from `least` to `most`, or a float from `least` to MOST_FRACTION."""

    def expected(value: float | None) -> str | None:
        largest = MOST_FRACTION if isinstance(value, float) else most
        if value is None or least <= value <= largest:
            return None
        return f"a number from {least:g} to {largest}" if value > least else f"a number of at least {least:g}"

    return field(default=default, metadata={"expected": expected, **metadata})


def numbers(names: str, default: list[float], least: float, most: float = MOST) -> Any:
    """Return a field for a list of numbers as long as `default`. names: Text for errors, such as [height,width]."""
    expected = f"{names}, each from {least:g} to {most}"
    return setting(
        default, lambda given: len(given) == len(default) and all(least <= n <= most for n in given), expected
    )


def interval(least: float, most: float) -> Any:
    """Return a field for an interval [lowest,highest]. The default is []."""
    expected = f"[lowest,highest] from {least:g} to {most:g}, or [] for none"
    return setting([], lambda ends: not ends or (len(ends) == 2 and least <= ends[0] <= ends[1] <= most), expected)


def require(condition: bool, key: str, value: object, expected: str) -> None:
    """Raise ConfigError with key, value and expected value unless `condition` holds."""
    if not condition:
        raise ConfigError(_problem(key, value, expected))


def _problem(key: str, value: object, expected: str) -> str:
    return f"{key} is {shortened(value) if str(value).strip() else repr(value)}, expected {expected}"


class Section:
    """Base class of the sections. It checks the values of a new section. Keys in errors begin with `prefix`."""

    _prefix = ""

    def __init_subclass__(cls, *, prefix: str) -> None:
        cls._prefix = prefix

    def __post_init__(self) -> None:
        """Raise ConfigError with all invalid values if there are any."""
        checks = {
            item.name: item.metadata["expected"] for item in fields(cast(Any, self)) if "expected" in item.metadata
        }
        faults = {name: expected for name, check in checks.items() if (expected := check(getattr(self, name)))}
        if faults:
            raise ConfigError(*(_problem(f"{self._prefix}{n}", getattr(self, n), faults[n]) for n in faults))

    def require(self, condition: bool, key: str, expected: str) -> None:
        """Raise ConfigError with the value of a setting unless `condition` holds."""
        require(condition, f"{self._prefix}{key}", attrgetter(key)(self), expected)
