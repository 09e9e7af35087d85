"""Recipes: YAML files of settings, found from any folder, each of which may build on another by a line `base: FILE`."""

import filecmp
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from utils.errors import ConfigError
from utils.log import logger
from utils.text import did_you_mean
from utils.yaml_file import read_yaml, shortened

FOLDER = Path(__file__).parent
BASE = "base"
_WRITTEN = "config.yaml"  # the settings of a run, in its folder
_OF_CHECKPOINTS = (".pt", ".pth", ".safetensors")
Layer = tuple[str, object]
"""The name of a place, for errors, and the settings that stand there."""


def read_recipe(path: Path) -> list[Layer]:
    """Return the settings of a YAML file, the last layer, after those of the file that it builds on, if any.

    Raises:
        OSError: the file cannot be read.
        ConfigError: it is not there, is no YAML or holds nothing; its base cannot be used, or builds on a file itself.
    """
    file = find_recipe(path)
    values, base = _read(file)
    if base is None:
        return [(str(file), values)]
    try:
        base_file = find_recipe(base, file.parent)
        base_values, its_base = _read(base_file)
    except (OSError, ConfigError) as error:
        raise ConfigError(*(f"{file}: base: {line}" for line in str(error).splitlines())) from error
    if its_base is not None:
        raise ConfigError(
            f"{file}: its base {base_file} has a base itself ({its_base}); name that one, or copy the settings"
        )
    return [(str(base_file), base_values), (str(file), values)]


def base_line(recipe: Sequence[Layer]) -> str:
    """Return the comment that names the file on which a recipe builds; empty where it builds on none."""
    *bases, _ = (name if name.isprintable() else repr(name) for name, _ in recipe)
    return "".join(f"# base: {name}\n" for name in bases)


def find_recipe(path: Path, folder: Path = Path()) -> Path:
    """Return the file that `path` names: below `folder`, below this program's folder, or a recipe's name.

    A path that is nowhere is returned as it is.
    """
    with suppress(RuntimeError):  # a home folder that nobody knows
        path = path.expanduser()
    candidates = [folder / path]
    if not path.is_absolute():
        candidates += [FOLDER.parent / path, FOLDER / path, FOLDER / f"{path}.yaml"]
    found = [candidate for candidate in candidates if candidate.is_file()]
    others = [other for other in found[1:] if not filecmp.cmp(found[0], other, shallow=False)]
    if others and os.environ.get("RANK", "0") == "0":
        logger.warning("%s: taken from %s, not from %s", path, found[0], others[0])
    return found[0] if found else folder / path


def _read(path: Path) -> tuple[object, Path | None]:
    """Return the settings of one file, and its base as the file names it."""
    if not path.exists():
        beside = ", ".join(sorted(str(file) for file in path.parent.glob("*.yaml"))) or "none"
        meant = did_you_mean(path.stem, (file.stem for file in FOLDER.glob("*.yaml")))
        raise ConfigError(
            f"{path}: no such configuration file; YAML files beside it: {beside}" + (f"; {meant}" if meant else "")
        )
    if path.suffix in _OF_CHECKPOINTS:
        written = path.with_name(_WRITTEN)
        file = written if written.is_file() else "FILE"
        raise ConfigError(f"{path}: is a checkpoint, expected a YAML file: --config {file} --resume {path}")
    if (path / _WRITTEN).is_file():
        raise ConfigError(f"{path}: is the folder of a run: --config {path / _WRITTEN}")
    values = read_yaml(path)
    if values is None:
        raise ConfigError(f"{path}: holds no settings; write {{}} in it to use the defaults, or name another file")
    if not isinstance(values, dict) or BASE not in values:
        return values, None
    base = values[BASE]
    if not isinstance(base, str) or not base.strip() or "\0" in base:
        raise ConfigError(f"{path}: base is {shortened(base)}, expected the name of a YAML file")
    return {key: value for key, value in values.items() if key != BASE}, Path(base)
