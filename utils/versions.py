"""The versions of what computes a result: this program, Python and torch."""

import os
import platform
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import torch

_ROOT = Path(__file__).resolve().parents[1]
_PATIENCE_S = 5.0  # with git, on a slow file system


@cache
def versions() -> str:
    """Return the versions in one line, with the commit of the program where it runs from a git clone."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    commit = git_commit(_ROOT)
    program = f"{project['name']} {project['version']}" + (f" (commit {commit})" if commit else "")
    return f"{program}, Python {platform.python_version()}, torch {torch.__version__}"


def git_commit(folder: Path) -> str | None:
    """Return the commit of a git clone, with "-dirty" where files differ from it; None where there is no clone or git.

    Folders above are not searched: the commit of a clone around this one is that of something else.
    """
    if not (folder / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    quiet = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}  # git then writes nothing
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True, env=quiet)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip() or None
