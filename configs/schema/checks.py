"""The checks that sections of the configuration share."""

from utils.errors import ConfigError
from utils.yaml_file import shortened

MOST = 2**31 - 1  # of a whole number: what torch and the file formats count with
MOST_FRACTION = 1e30  # of other numbers: float32 ends at 3e38
MOST_HALVINGS = 16  # of an image: more than any has
MOST_LAYERS = 1000  # of a kind


def require(condition: bool, key: str, value: object, expected: str) -> None:
    """Raise ConfigError unless `condition` holds."""
    if not condition:
        raise ConfigError(f"{key} is {shortened(value)}, expected {expected}")


def require_at_least(least: float, section: str, **values: float | None) -> None:
    """Raise ConfigError, which names them all, unless every value is None or a finite number of at least `least`."""
    require_between(least, MOST, section, **values)


def require_between(least: float, most: int, section: str, **values: float | None) -> None:
    """Raise ConfigError as `require_at_least` does, or where a whole number is above `most`."""
    problems = []
    for key, value in values.items():
        largest = MOST_FRACTION if isinstance(value, float) else most
        if value is None or least <= value <= largest:
            continue
        expected = f"a number from {least:g} to {largest}" if value > least else f"a number of at least {least:g}"
        problems.append(f"{section}.{key} is {shortened(value)}, expected {expected}")
    if problems:
        raise ConfigError(*problems)
