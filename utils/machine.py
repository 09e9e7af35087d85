"""Facts about the machine (cores, memory), memory allocation, and versions of the program and its libraries."""

import ctypes
import os
import platform
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_UNKNOWN = 2**33
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -3, -4, -8  # malloc.h of glibc
_LARGE = 2**25  # bytes; the highest M_MMAP_THRESHOLD that glibc accepts


@cache
def memory_bytes() -> int:
    """Return the memory of the machine or its container, whichever is smaller, in bytes. If unknown, return 8 GiB."""
    amounts = []
    if sys.platform != "win32":
        with suppress(ValueError, OSError):  # not all systems have these names
            amounts.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in CONTAINER_LIMITS:
        with suppress(ValueError, OSError):  # the text "max" means no limit
            amounts.append(int(Path(file).read_text()))
    return min(amounts, default=_UNKNOWN)


def usable_cores() -> int:
    """Return the number of CPU cores that this process can use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_freed_memory(*, gives_large_back: bool = False) -> bool:
    """Let the C library keep freed memory for the next step. Return whether the library supports this.

    By default, glibc returns large freed tensors to the system, so steps on a CPU spend much time in page faults.

    gives_large_back: Whether to return tensors from 32 MiB, for activation checkpointing, which fragments kept memory.
    """
    mallopt = _c_function("mallopt")
    if mallopt is None:
        return False
    # also use a single arena for all threads, and never trim it
    mapping = mallopt(_M_MMAP_THRESHOLD, _LARGE) if gives_large_back else mallopt(_M_MMAP_MAX, 0)
    return all([mallopt(_M_ARENA_MAX, 1), mapping, mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)])


def give_freed_memory_back() -> None:
    """Return freed memory to the system, including gaps between tensors, if the C library supports this."""
    if malloc_trim := _c_function("malloc_trim"):
        malloc_trim(0)


@cache
def _c_function(name: str) -> Callable[..., int] | None:
    """Return a function of glibc, or None if the C library lacks it."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return None
    return function


@cache
def versions() -> str:
    """Return the versions of the program, Python and torch in one line, with the git commit if it is known."""
    import torch

    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    commit = git_commit(_ROOT)
    program = f"{project['name']} {project['version']}" + (f" (commit {commit})" if commit else "")
    return f"{program}, Python {platform.python_version()}, torch {torch.__version__}"


def git_commit(folder: Path) -> str | None:
    """Return the commit of a git clone, or None without a clone or git. The suffix "-dirty" means changed files."""
    if not (folder / ".git").exists():  # ignore a clone in a parent folder
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    quiet = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}  # do not write to the clone
    try:  # git can exceed the timeout on a slow file system
        result = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True, env=quiet)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip() or None
