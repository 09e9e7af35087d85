"""What a function can be called with, read from its signature."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def argument_names(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of a function's, or of a class's, keyword arguments."""
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return frozenset(
        name for name, parameter in inspect.signature(function).parameters.items() if parameter.kind in kinds
    )


def accepted(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of `values` that are keyword arguments of a function."""
    names = argument_names(function)
    return {name: value for name, value in values.items() if name in names}
