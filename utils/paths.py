"""Paths as users write them, with `~` and `..`. Imports nothing slow."""

from pathlib import Path

from utils.errors import ConfigError


def expanded(path: str | Path, setting: str) -> Path:
    """Return a path with the home folder instead of `~` or `~USER`.

    setting: Setting, option or environment variable that holds the path, for messages.

    Raises:
        ConfigError: There is no such home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        remedy = "write the path in full, or set the environment variable HOME"
        raise ConfigError(f"{setting} is {path}, and there is no such home folder; {remedy}") from error


def without_dots(path: Path) -> Path:
    """Return an absolute path without `..`, for comparisons. Links behind the last `..` stay: they name results."""
    parts = path.absolute().parts
    n_resolved = max((number for number, part in enumerate(parts, 1) if part == ".."), default=0)
    return Path(*parts[:n_resolved]).resolve() / Path(*parts[n_resolved:])


def data_root_problem(root: str) -> str | None:
    """Return why `root` is no folder of a data set, with the remedy, or None if it is one."""
    if "://" in root:  # not shown, because it may hold a password
        return "data.root: is an address. Mount it, and name the folder (docs/shards.md): data.root=FOLDER."
    folder = expanded(root, "data.root")
    if folder.is_file():
        return f"data.root: is a file: {root}. Name its folder: data.root=FOLDER."
    return None if folder.is_dir() else f"data.root: no such folder: {root}. Set data.root=FOLDER."
