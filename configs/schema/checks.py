"""The checks that sections of the configuration share."""

from collections.abc import Mapping
from operator import attrgetter

from utils.errors import ConfigError
from utils.yaml_file import shortened

MOST = 2**31 - 1  # a whole number: torch and the file formats count up to it
MOST_FRACTION = 1e30  # other numbers: float32 ends at 3e38
MOST_HALVINGS = 16  # more than any image allows
MOST_LAYERS = 1000


def require(condition: bool, key: str, value: object, expected: str) -> None:
    """Raise ConfigError unless `condition` holds."""
    if not condition:
        raise ConfigError(f"{key} is {shortened(value)}, expected {expected}")


def require_numbers(values: Mapping[str, float | None], least: float, most: int = MOST) -> None:
    """Raise ConfigError, which names them all, unless every value is None or a finite number of at least `least`.

    values: Values by their keys. most: Largest whole number.
    """
    problems = []
    for key, value in values.items():
        largest = MOST_FRACTION if isinstance(value, float) else most
        if value is None or least <= value <= largest:
            continue
        expected = f"a number from {least:g} to {largest}" if value > least else f"a number of at least {least:g}"
        problems.append(f"{key} is {shortened(value)}, expected {expected}")
    if problems:
        raise ConfigError(*problems)


class Section:
    """A section of settings, which checks its values when it is made. `prefix` is the beginning of their keys."""

    _prefix = ""

    def __init_subclass__(cls, *, prefix: str) -> None:
        cls._prefix = prefix

    def require(self, condition: bool, key: str, expected: str) -> None:
        """Raise ConfigError with the value of a setting unless `condition` holds."""
        require(condition, f"{self._prefix}{key}", attrgetter(key)(self), expected)

    def require_numbers(self, *keys: str, least: float, most: int = MOST) -> None:
        """Raise ConfigError unless every setting is None or a finite number of at least `least`."""
        require_numbers({f"{self._prefix}{key}": getattr(self, key) for key in keys}, least, most)
