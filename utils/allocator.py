"""How the C library hands out memory to a training on a CPU."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8  # malloc.h of glibc


def keep_freed_memory() -> bool:
    """Have freed memory kept for the next step instead of given back; returns whether the C library could be told.

    By default glibc maps every large tensor anew and unmaps it when it is freed, so that a step on a CPU spends much of
    its time in page faults: the gradients alone of a full-size generator are 730 MB, new in every step. What is kept
    lies in holes of all sizes, and takes up to a tenth more memory: not for a training that is short of it.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    # one arena, never mapped and never trimmed: what one thread frees, as autograd's, the others can have
    return all([mallopt(_M_ARENA_MAX, 1), mallopt(_M_MMAP_MAX, 0), mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)])
