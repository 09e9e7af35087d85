"""The form of a checkpoint's content, checked before anything uses a file that may be crafted."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from utils.nesting import NestingError, distinct_values, plain_parts

MOST_VALUES = 10**6
MOST_TENSORS = 20_000  # tensors of a network; the deepest one that the settings allow has about 8,000
_MOST = 2**31 - 1  # steps, epochs and samples, as the settings limit them


def content_fault(state: object, n_bytes: int) -> str | None:
    """Return why a file's content cannot be read safely, None if it can.

    n_bytes: Size of the file. Its tensors may not be larger, as views that repeat one number are.
    """
    n_tensor_bytes = n_expanded = 0
    try:
        for value, n_values in distinct_values(state, plain_parts):
            n_expanded = n_values
            if isinstance(value, Tensor):
                if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
                    return "it holds a tensor that is not dense"
                n_tensor_bytes += value.nbytes
    except NestingError as error:
        return f"{error}"
    if n_expanded > MOST_VALUES:
        return f"it expands to more than {MOST_VALUES} values"
    return "it holds tensors that are larger than the file" if n_tensor_bytes > n_bytes else None


def training_fault(state: Mapping[str, Any]) -> str | None:
    """Return which value of a checkpoint has a form that no run writes, None if there is none.

    Missing keys are no fault here. The settings have checks of their own.
    """
    content: object = state
    for value, _ in distinct_values(content, plain_parts):
        if isinstance(value, dict) and not all(isinstance(key, str | int) for key in value):
            return "it holds a key that is neither a text nor a number"
        if not isinstance(value, dict | list | tuple | str | int | float | Tensor | None):
            return f"it holds a {type(value).__name__}"
        if isinstance(value, int) and abs(value) >= 2**63:
            return "it holds a whole number of more than 64 bits"
    for key, (has_form, expected) in _FORMS.items():
        if key in state and not has_form(state[key]):
            return f"its {key} is ill-formed, expected {expected}"
    return None


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and not math.isnan(float(value))  # type: ignore[arg-type]


def _dict_of(is_value: Callable[[Any], bool]) -> Callable[[object], bool]:
    def has_form(value: object) -> bool:
        return isinstance(value, dict) and all(isinstance(key, str) and is_value(value[key]) for key in value)

    return has_form


def _list_of(is_value: Callable[[Any], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(is_value, value))


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


def _is_weights(value: object) -> bool:
    return _dict_of(_is_tensor)(value) and len(value) <= MOST_TENSORS  # type: ignore[arg-type]


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


def _is_patience(value: object) -> bool:
    if not (isinstance(value, list | tuple) and len(value) == 2):
        return False
    return (value[0] is None or _is_number(value[0])) and _is_count(value[1])


def _is_optimizer(value: object) -> bool:
    """Return whether a value has well-formed moments, scaler and count, each of which may be missing."""
    checks = {"moments": _dict_of(_is_dict), "scaler": _dict_of(_is_number), "skipped_steps": _is_count}
    return isinstance(value, dict) and all(check(value[key]) for key, check in checks.items() if key in value)


_COUNT = (_is_count, f"a whole number from 0 to {_MOST}")
_WEIGHTS = (_dict_of(_is_weights), "the weights of each network by their names")
_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("step", "epoch", "samples_into_epoch", "n_samples"), _COUNT),
    **dict.fromkeys(("networks", "averages"), _WEIGHTS),
    "config": (_is_dict, "settings by section"),
    "optimizers": (_dict_of(_is_optimizer), "the state of each optimizer by its name"),
    "method": (_is_dict, "values by name"),
    "random_states": (_list_of(_dict_of(_is_tensor)), "the random state of each process"),
    "method_of_processes": (_list_of(_is_dict), "values of each process by name"),
    "data": (lambda value: value is None or (_is_tensor(value) and value.dim() == 1), "digests of the samples"),
    "plateau": (_dict_of(_is_number), "numbers by name"),
    "registered_losses": (_dict_of(_is_number), "weights by name"),
    "best": (_is_number, "a number"),
    "patience": (_is_patience, "a number or null, and a whole number"),
    "measured_on": (_dict_of(lambda value: isinstance(value, str)), "digests by figure"),
}
