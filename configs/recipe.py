"""Recipes: YAML files of settings, found from any folder, each of which may build on another by a line `base: FILE`."""

import filecmp
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from utils.errors import ConfigError
from utils.log import logger
from utils.text import did_you_mean
from utils.yaml_file import read_yaml, shortened

FOLDER = Path(__file__).parent
BASE = "base"
_WRITTEN = "config.yaml"  # the settings of a run, in its folder
_OF_CHECKPOINTS = (".pt", ".pth", ".safetensors")


@dataclass(frozen=True)
class Recipe:
    """The settings of a YAML file, as they stand there; `base` has those that it builds on."""

    path: Path
    values: Any
    base: "Recipe | None" = None

    @property
    def comment(self) -> str:
        """Return the line that names the base, empty where there is none."""
        if self.base is None:
            return ""
        text = str(self.base.path)
        return f"# base: {text if text.isprintable() else repr(text)}\n"


def read_recipe(path: Path) -> Recipe:
    """Read a YAML file, and the one that it builds on.

    Raises:
        OSError: the file cannot be read.
        ConfigError: it is not there, is no YAML or holds nothing; its base cannot be used, or builds on a file itself.
    """
    recipe, base = _read(find_recipe(path))
    if base is None:
        return recipe
    try:
        below, its_base = _read(find_recipe(base, recipe.path.parent))
    except (OSError, ConfigError) as error:
        raise ConfigError(*(f"{recipe.path}: base: {line}" for line in str(error).splitlines())) from error
    if its_base is not None:
        raise ConfigError(
            f"{recipe.path}: its base {below.path} has a base itself ({its_base}); name that one, or copy the settings"
        )
    return Recipe(recipe.path, recipe.values, below)


def find_recipe(path: Path, folder: Path = Path()) -> Path:
    """Return the file that `path` names: below `folder`, below this program's folder, or a recipe's name.

    A path that is nowhere is returned as it is.
    """
    with suppress(RuntimeError):  # a home folder that nobody knows
        path = path.expanduser()
    candidates, found = [folder / path], list[Path]()
    if not path.is_absolute():
        candidates += [FOLDER.parent / path, FOLDER / path, FOLDER / f"{path}.yaml"]
    for candidate in candidates:
        if candidate.is_file() and not any(_is_same(candidate, other) for other in found):
            found.append(candidate)
    if len(found) > 1 and os.environ.get("RANK", "0") == "0":
        logger.warning("%s: taken from %s, not from %s", path, found[0], found[1])
    return found[0] if found else folder / path


def _is_same(one: Path, other: Path) -> bool:
    return one.samefile(other) or filecmp.cmp(one, other, shallow=False)


def _read(path: Path) -> tuple[Recipe, Path | None]:
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
        return Recipe(path, values), None
    base = values[BASE]
    if not isinstance(base, str) or not base.strip() or "\0" in base:
        raise ConfigError(f"{path}: base is {shortened(base)}, expected the name of a YAML file")
    return Recipe(path, {key: value for key, value in values.items() if key != BASE}), Path(base)
