"""Argument names of functions and constructors. Builders use these names to pass only accepted arguments."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def argument_names(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of the keyword arguments of a function or constructor."""
    parameters = inspect.signature(function).parameters
    return frozenset(name for name, parameter in parameters.items() if parameter.kind in _BY_NAME)


def accepted(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return only those `values` whose names are keyword arguments of a function."""
    names = argument_names(function)
    return {name: value for name, value in values.items() if name in names}


def required_names(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of the function's keyword arguments that have no default."""
    parameters = inspect.signature(function).parameters
    return frozenset(name for name in argument_names(function) if parameters[name].default is inspect.Parameter.empty)
