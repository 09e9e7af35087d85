"""The versions of the program and its libraries."""

import os
import platform
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import torch

_ROOT = Path(__file__).resolve().parents[1]


@cache
def versions() -> str:
    """Return the versions in one line, with the commit of the program if it runs from a git clone."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    commit = git_commit(_ROOT)
    program = f"{project['name']} {project['version']}" + (f" (commit {commit})" if commit else "")
    return f"{program}, Python {platform.python_version()}, torch {torch.__version__}"


def git_commit(folder: Path) -> str | None:
    """Return the commit of a git clone, with "-dirty" if files differ from it. Return None without a clone or git.

    Folders above are not searched, because another clone around this folder has another commit.
    """
    if not (folder / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    quiet = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}  # git then writes nothing
    try:  # a file system may be slow
        result = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True, env=quiet)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip() or None
