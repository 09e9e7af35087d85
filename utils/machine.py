"""The cores and the memory of the machine, and how the C library manages freed memory."""

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_UNKNOWN = 2**33
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -3, -4, -8  # malloc.h of glibc
_LARGE = 2**25  # bytes; the highest threshold for mapping that glibc accepts


@cache
def memory_bytes() -> int:
    """Return the memory of the machine or of the container, whichever is less, in bytes; 8 GiB if it is unknown."""
    amounts = []
    if sys.platform != "win32":
        with suppress(ValueError, OSError):  # no such name on this system
            amounts.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in CONTAINER_LIMITS:
        with suppress(ValueError, OSError):  # "max": no limit
            amounts.append(int(Path(file).read_text()))
    return min(amounts, default=_UNKNOWN)


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_freed_memory(*, gives_large_back: bool = False) -> bool:
    """Keep freed memory for the next step instead of returning it. Return whether the C library supports that.

    By default glibc maps every large tensor and unmaps it when it is freed, so that a step on a CPU spends much of its
    time in page faults. Kept memory is fragmented, by up to a tenth.

    gives_large_back: Map tensors of 32 MiB and more as by default. This limits fragmentation if activations are
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
