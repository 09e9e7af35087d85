"""Paths as users write them: below their home folder, which a user of a container may not have, or with `..`."""

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
