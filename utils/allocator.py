"""How the C library hands out memory to a training on a CPU, and takes it back."""

import ctypes
import sys
from collections.abc import Callable
from functools import cache

from torch import Tensor

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8  # malloc.h of glibc


def keep_freed_memory() -> bool:
    """Have freed memory kept for the next step instead of given back; returns whether the C library could be told.

    By default glibc maps every large tensor anew and unmaps it when it is freed, so that a step on a CPU spends much of
    its time in page faults: the gradients alone of a full-size generator are 730 MB, new in every step. What is kept
    lies in holes of all sizes, and takes up to a tenth more memory: not for a training that is short of it.
    """
    mallopt = _c_function("mallopt")
    if mallopt is None:
        return False
    # one arena, never mapped and never trimmed: what one thread frees, as autograd's, the others can have
    return all([mallopt(_M_ARENA_MAX, 1), mallopt(_M_MMAP_MAX, 0), mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)])


def give_freed_memory_back(_: Tensor | None = None) -> None:
    """Have the system take back what lies freed between tensors, where the C library can; a hook of a gradient.

    The backward pass frees activations while gradients of weights come to be, which are too large for the holes: in a
    training that recomputes activations a tenth of the memory would be nothing but holes. It takes 5 ms.
    """
    if malloc_trim := _c_function("malloc_trim"):
        malloc_trim(0)


@cache
def _c_function(name: str) -> Callable[..., int] | None:
    """A function of glibc; None where there is another C library."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return None
    return function
