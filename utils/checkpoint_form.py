"""The form of a checkpoint's content, checked before anything uses a file that may be crafted."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from utils.plain_values import NestingError, distinct_values, plain_parts

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
    wrong = [key for key, form in _FORMS.items() if key in state and not _fits(state[key], form)]
    return f"its {wrong[0]} has a form that no run writes" if wrong else None


def _fits(value: object, form: Any) -> bool:
    """Return whether a value has a form: a type, a test, [form of items], or {str: form of values}."""
    if isinstance(form, type):
        return isinstance(value, form)
    if isinstance(form, list):
        return isinstance(value, list | tuple) and all(_fits(item, form[0]) for item in value)
    if isinstance(form, dict):
        return isinstance(value, dict) and all(type(key) is str and _fits(of, form[str]) for key, of in value.items())
    return bool(form(value))


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and not math.isnan(float(value))  # type: ignore[arg-type]


def _is_weights(value: object) -> bool:
    """Return whether a value is the weights of a network. A network of very many parts takes long to build."""
    return _fits(value, {str: Tensor}) and len(value) <= MOST_TENSORS  # type: ignore[arg-type]


def _is_optimizer(value: object) -> bool:
    """Return whether moments, scaler and count are well-formed, if they are present."""
    forms = {"moments": {str: dict}, "scaler": {str: _is_number}, "skipped_steps": _is_count}
    return isinstance(value, dict) and all(_fits(value[key], form) for key, form in forms.items() if key in value)


def _is_patience(value: object) -> bool:
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    return is_pair and (value[0] is None or _is_number(value[0])) and _is_count(value[1])  # type: ignore[index]


_FORMS: dict[str, Any] = {
    **dict.fromkeys(("step", "epoch", "samples_into_epoch", "n_samples"), _is_count),
    "networks": {str: _is_weights},
    "averages": {str: _is_weights},
    "config": dict,
    "optimizers": {str: _is_optimizer},
    "method": dict,
    "random_states": [{str: Tensor}],
    "method_of_processes": [dict],
    "data": lambda value: value is None or (isinstance(value, Tensor) and value.dim() == 1),
    "plateau": {str: _is_number},
    "registered_losses": {str: _is_number},
    "best": _is_number,
    "patience": _is_patience,
    "measured_on": {str: str},
}
