"""The cores and the memory of the machine."""

import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of containers
_UNKNOWN = 2**33


@cache
def memory_bytes() -> int:
    """Return the memory of the machine, or of the container where that has less; 8 GiB where nothing says how much."""
    amounts = []
    if sys.platform != "win32":
        with suppress(ValueError, OSError):  # no such name on this system
            amounts.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in _LIMITS:
        with suppress(ValueError, OSError):  # "max": no limit
            amounts.append(int(Path(file).read_text()))
    return min(amounts, default=_UNKNOWN)


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
