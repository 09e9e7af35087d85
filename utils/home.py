"""Paths below the user's home folder, which a user of a container may not have."""

from pathlib import Path

from utils.errors import ConfigError


def expanded(path: str | Path, setting: str) -> Path:
    """Return a path with the home folder in place of `~` or `~USER`.

    setting: Setting, option or environment variable that holds the path, for messages.

    Raises:
        ConfigError: There is no such home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        remedy = "write the path in full, or set the environment variable HOME"
        raise ConfigError(f"{setting} is {path}, and there is no such home folder; {remedy}") from error
