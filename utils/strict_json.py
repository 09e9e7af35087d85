"""JSON that every parser takes: Python's own writes NaN and Infinity, which JSON does not have, and reads 1e999."""

import json
import math
from collections.abc import Mapping
from typing import Any


def strict_json(value: object, indent: int | None = None) -> str:
    """Return a value as JSON, with null for numbers that are not finite."""
    return json.dumps(_nulled(value), indent=indent, allow_nan=False)


def read_json(text: str) -> Any:
    """Return the value of JSON, with None for numbers that are not finite or whole numbers beyond 64 bits.

    Earlier versions wrote numbers that are not finite as NaN.

    Raises:
        ValueError: the text is no JSON, or nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=lambda _: None, parse_float=_finite, parse_int=_whole)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _finite(text: str) -> float | None:
    return value if math.isfinite(value := float(text)) else None


def _whole(text: str) -> int | None:
    return value if abs(value := int(text)) < 2**63 else None


def _nulled(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _nulled(item) for key, item in value.items()}
    return [_nulled(item) for item in value] if isinstance(value, list | tuple) else value
