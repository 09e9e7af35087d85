"""Deterministic algorithms, so that the same run gives the same bits on a GPU too."""

import os
import re
import sys
import warnings
from typing import TextIO

import torch

from utils.log import logger

_OPERATION = re.compile(r"(\S+) does not have a deterministic implementation")
_named: set[str] = set()  # operations without such an algorithm


def use_deterministic_algorithms(is_on: bool) -> None:
    """Use deterministic algorithms alone, or leave the choice to the libraries.

    Call it before a GPU computes. An operation that has no such algorithm is computed all the same, and named once in a
    warning.
    """
    torch.use_deterministic_algorithms(is_on, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.deterministic = is_on
    if is_on:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it starts
        torch.backends.cudnn.benchmark = False
        _named.clear()
        warnings.filterwarnings("always", message=_OPERATION.pattern)
        warnings.showwarning = _show


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as Python does, but torch's of an operation in one line, once."""
    found = _OPERATION.search(str(message))
    if found is None:
        (file or sys.stderr).write(warnings.formatwarning(message, category, filename, lineno, line))
    elif found[1] not in _named:
        _named.add(found[1])
        logger.warning("train.deterministic: %s has no deterministic algorithm; the last bits may differ", found[1])
