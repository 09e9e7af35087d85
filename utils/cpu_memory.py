"""How the C library hands out memory to a training on a CPU, and takes it back."""

import ctypes
import sys
from collections.abc import Callable
from functools import cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -3, -4, -8  # malloc.h of glibc
_LARGE = 2**25  # bytes; the most that glibc takes as the size from which it maps


def keep_freed_memory(*, gives_large_back: bool = False) -> bool:
    """Have freed memory kept for the next step instead of given back; returns whether the C library could be told.

    By default glibc maps every large tensor anew and unmaps it when it is freed, so that a step on a CPU spends much of
    its time in page faults: with activation checkpointing, whose activations come and go twice, a quarter of a step at
    full size. What is kept lies in holes of all sizes, up to a tenth of the memory.

    gives_large_back: tensors of 32 MiB and more are mapped as ever, so that the holes stay small: at 1024x512 a step
        that recomputes activations holds 3.8 GiB instead of 4.2, and spends a twentieth of its time in page faults.
    """
    mallopt = _c_function("mallopt")
    if mallopt is None:
        return False
    # one arena, never trimmed: what one thread frees, as autograd's, the others can have
    mapping = mallopt(_M_MMAP_THRESHOLD, _LARGE) if gives_large_back else mallopt(_M_MMAP_MAX, 0)
    return all([mallopt(_M_ARENA_MAX, 1), mapping, mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)])


def give_freed_memory_back() -> None:
    """Have the system take back what lies freed between tensors, where the C library can."""
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
