"""How the C library gives memory to a training on a CPU, and takes it back."""

import ctypes
import sys
from collections.abc import Callable
from functools import cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -3, -4, -8  # malloc.h of glibc
_LARGE = 2**25  # bytes; the most that glibc takes as the size from which it maps


def keep_freed_memory(*, gives_large_back: bool = False) -> bool:
    """Keep freed memory for the next step instead of returning it; return whether the C library supports that.

    By default glibc maps every large tensor and unmaps it when it is freed, so that a step on a CPU spends much of its
    time in page faults. Kept memory is fragmented, by up to a tenth.

    gives_large_back: map tensors of 32 MiB and more as by default, which limits fragmentation where activations are
        recomputed.
    """
    mallopt = _c_function("mallopt")
    if mallopt is None:
        return False
    # one arena, never trimmed: memory that one thread frees, as autograd's, serves the others
    mapping = mallopt(_M_MMAP_THRESHOLD, _LARGE) if gives_large_back else mallopt(_M_MMAP_MAX, 0)
    return all([mallopt(_M_ARENA_MAX, 1), mapping, mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)])


def give_freed_memory_back() -> None:
    """Return freed memory between tensors to the system, if the C library supports that."""
    if malloc_trim := _c_function("malloc_trim"):
        malloc_trim(0)


@cache
def _c_function(name: str) -> Callable[..., int] | None:
    """Return a function of glibc, or None with another C library."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return None
    return function
