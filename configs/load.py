"""Convert a YAML file and command-line overrides to a Config, and back.

The parser reads `no`, `1e-4` and `010` as text, and the schema converts this text to the type of the setting. A run can
therefore have the name `no`, and a learning rate can be 1e-4.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from configs.schema import (
    FORMER_SECTIONS,
    REMOVED,
    Config,
    removed_fault,
    settings_by_key,
    with_successors,
    without_removed,
)
from configs.schema.data import read_instances, read_source_folder, read_source_range
from configs.schema.loss import read_class_weights
from configs.schema.train import METHODS
from utils.errors import ConfigError
from utils.files import expanded
from utils.label_colors import read_color_table
from utils.plain_values import distinct_values, plain_parts
from utils.text import did_you_mean
from utils.yaml_file import MAX_PROBLEMS, parse_yaml, read_yaml, shortened

FOLDER = Path(__file__).parent
BASE = "base"
_RUN_SETTINGS = "config.yaml"  # a file in the folder of each run
Layer = tuple[str, object]
"""(origin, settings). The origin is a name for error messages, such as the path of a YAML file."""

READERS: dict[str, Callable[[object, str], object]] = {  # convert a value in YAML to the value of a setting
    "data.label_colors": read_color_table,  # replaces a file name by the file's content
    "data.source_folder": read_source_folder,
    "data.source_range": read_source_range,
    "data.instances": read_instances,
    "loss.class_weights": read_class_weights,
}
_FORMERLY_TRUE, _FORMERLY_FALSE = ("true", "yes", "on"), ("false", "no", "off")
FORMER_VALUES: dict[str, Mapping[str, object]] = {  # former values of a key, with their current values
    "discriminator.spectral_norm": dict.fromkeys(_FORMERLY_TRUE, "all") | dict.fromkeys(_FORMERLY_FALSE, "none"),
    "generator.skips": dict.fromkeys(_FORMERLY_TRUE, "half") | dict.fromkeys(_FORMERLY_FALSE, "none"),
    "metrics.n_samples": {"none": 4},
    "data.layout": {"shards": "paired_folders", "unpaired_shards": "unpaired_folders"},  # these also read tar files
}


def read_recipe(path: Path, folder: Path = Path(), *, is_base: bool = False) -> list[Layer]:
    """Return the layers of a YAML file: first its base file, if any, and last its own settings.

    folder: Folder that a relative path starts from.

    Raises:
        OSError: The file cannot be read.
        ConfigError: The file does not exist, is empty or is not YAML. Or its base file is invalid or has a base.
    """
    file = find_recipe(path, folder)
    values = _read(file)
    if not isinstance(values, dict) or BASE not in values:
        return [(str(file), values)]
    base = values[BASE]
    if not isinstance(base, str) or not base.strip() or "\0" in base:
        raise ConfigError(f"{file}: base is {shortened(base)}, expected the name of a YAML file")
    if is_base:
        raise ConfigError(f"{file}: cannot be a base, because it has a base. Use {base} as base, or copy settings")
    layers = read_recipe(Path(base), file.parent, is_base=True)
    return [*layers, (str(file), {key: value for key, value in values.items() if key != BASE})]


def base_line(recipe: Sequence[Layer]) -> str:
    """Return a comment that names the base of a recipe, or an empty text if there is no base."""
    return "".join(f"# base: {name if name.isprintable() else repr(name)}\n" for name, _ in recipe[:-1])


def find_recipe(path: Path, folder: Path = Path()) -> Path:
    """Return the file that `path` names. Search in `folder`, in the program's folder and among the recipes.

    If no such file exists, return `folder / path`.
    """
    with suppress(RuntimeError):  # the home folder is unknown
        path = path.expanduser()
    candidates = [folder / path]
    if not path.is_absolute():
        candidates += [FOLDER.parent / path, FOLDER / path, FOLDER / f"{path}.yaml"]
    return next(filter(Path.is_file, candidates), folder / path)


def _read(path: Path) -> object:
    """Return the content of a YAML file."""
    if not path.exists():
        neighbours = ", ".join(sorted(str(file) for file in path.parent.glob("*.yaml"))) or "none"
        meant = did_you_mean(path.stem, (file.stem for file in FOLDER.glob("*.yaml")))
        hint = "; ".join(filter(None, [f"YAML files next to it: {neighbours}", meant]))
        raise ConfigError(f"{path}: no such configuration file; {hint}")
    settings = path / _RUN_SETTINGS if path.is_dir() else path.with_name(_RUN_SETTINGS)
    if path.suffix in (".pt", ".pth", ".safetensors"):
        file = settings if settings.is_file() else "FILE"
        raise ConfigError(f"{path}: is a checkpoint, not a YAML file. Use --config {file} --resume {path}")
    if path.is_dir() and settings.is_file():
        raise ConfigError(f"{path}: is the folder of a run. Use --config {settings}")
    if (values := read_yaml(path)) is None:
        raise ConfigError(f"{path}: has no settings. Write {{}} in it to use the defaults, or name another file")
    return values


def load_config(path: Path | str, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML file and its base file, if any, and apply overrides of the form `section.key=value`.

    path: YAML file, or name of a recipe in configs/.

    Raises:
        OSError: The file cannot be read.
        ConfigError: The file does not exist or is no YAML, or settings are wrong. The error lists all faults.
    """
    return config_of(read_recipe(Path(path)), overrides)


def config_of(layers: Sequence[Layer], overrides: Sequence[str] = ()) -> Config:
    """Merge layers of settings and overrides to a Config. Later layers replace earlier layers.

    Raises:
        ConfigError: Keys or values are wrong, or a path begins with `~` and the home folder is unknown.
    """
    config = _merged(layers, overrides)
    for key, value in settings_by_key(config).items():
        expanded(str(value), key)
    return config


def config_from_dict(values: object, origin: str, overrides: Sequence[str] = ()) -> Config:
    """Return the Config of a dict from `config_to_dict`, with overrides. origin: Name of the dict in errors.

    Ignore settings that no longer exist. Do not check paths, because they can belong to another machine.
    """
    if isinstance(values, Mapping):
        values = without_removed(with_successors(dict(_settings(values))), origin)
    return _merged([(origin, values)], overrides)


def _merged(layers: Sequence[Layer], overrides: Sequence[str]) -> Config:
    """Merge layers of settings and overrides to a Config. Raise a ConfigError that names all wrong settings."""
    config, sections, problems = deepcopy(_EMPTY), dict[str, Any](), list[str]()
    for origin, values in (*layers, *map(_parsed_override, overrides)):
        problems += (f"{origin}: {problem}" for problem in _assign_all(config, values))
    origin = layers[-1][0] + (" with the command line" if overrides else "")
    missing = sorted(OmegaConf.missing_keys(config))  # `???` in a recipe marks them
    problems += [f"{origin}: {key} is missing; add {key}=… to the command line" for key in missing]
    for section in [] if missing else _SECTIONS:
        try:
            sections[section] = OmegaConf.to_object(config[section])
        except ConfigError as error:
            problems += [f"{origin}: {problem}" for problem in error.problems]
    if not problems:
        from configs.rules import check_rules  # imports torch, so report other mistakes first

        result = Config(**sections)
        try:
            check_rules(result)
            return result
        except ConfigError as error:
            problems = [f"{origin}: {problem}" for problem in error.problems]
    raise ConfigError(*problems[:MAX_PROBLEMS])


def config_to_dict(config: Config) -> dict[str, Any]:
    """Return the settings as nested dicts of plain types, the format in checkpoints."""
    return asdict(config)


def config_to_yaml(config: Config) -> str:
    """Return the settings as YAML for `load_config`."""
    return yaml.dump(config_to_dict(config), Dumper=yaml.SafeDumper, allow_unicode=True, sort_keys=False)


def _parsed_override(override: str) -> Layer:
    key, equals, value = override.partition("=")
    where = f"{override!r} on the command line"
    if not (equals and all(key.split("."))):
        is_file = override.endswith((".yaml", ".yml"))
        expected = f"--config {override}" if is_file else "section.key=value without spaces, for instance run.seed=1"
        raise ConfigError(f"{where}: write {expected}")
    is_text = key == "data.source_folder" or key in _OF_NETWORKS or _TYPES.get(key) in (str, str | None)
    return where, {key: value if is_text and value != "null" else parse_yaml(value, where)}  # text needs no quotes


def _assign_all(config: DictConfig, values: object) -> Iterator[str]:
    """Assign values to the settings of `config`. Yield a message for each wrong setting."""
    if not isinstance(values, Mapping):
        yield f"expected sections such as `run:` and `data:`, found {shortened(values)}"
        return
    given = list(_settings(values))
    counts = Counter(key for key, _ in given)
    yield from (f"{key} is given twice; keep one" for key, count in counts.items() if count > 1)
    for key, value in with_successors(dict(given)).items():
        network = _OF_NETWORKS.get(key)
        setting = (key, value) if network is None else ("init.networks", {network: value})
        if problem := _assign(config, *setting):
            yield problem


def _settings(values: Mapping[Any, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the name `section.key` and the value of each setting in nested mappings."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if name in (*_SECTIONS, *FORMER_SECTIONS) and isinstance(value, Mapping):
            yield from _settings(value, f"{name}.")
        else:
            yield name, value


def _assign(config: DictConfig, key: str, value: object) -> str | None:
    """Assign a value to a setting. Return an error message, or None."""
    if key in _SECTIONS:  # a section without keys is None
        return None if value is None else f"{key} is a section; write {key}.key=value or keys below it"
    if key not in _TYPES:
        if key == BASE:
            return f"{key} is not a setting; write the line {key}: FILE in a YAML file"
        if key in REMOVED:
            fault = removed_fault(key, value)
            return f"{fault}; leave it out" if fault else None
        return f"unknown key {shortened(key)}; {_known_keys(key)}"
    text = shortened(value)
    if "${" in str(value):
        return f"{key} holds {text}, which is not supported; write the value itself"
    texts = [part for part, _ in distinct_values(value, plain_parts) if isinstance(part, str)]
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for part in texts for character in part):
        return f"{key} is {text}, with a character that is NUL or not UTF-8; use another name"
    value = FORMER_VALUES.get(key, {}).get(str(value).lower(), value)
    try:
        value = READERS[key](value, key) if key in READERS else value
        OmegaConf.update(config, key, value, merge=key not in READERS)
    except ConfigError as error:
        return str(error)
    except (OmegaConfBaseException, TypeError, ValueError, OverflowError):
        text = shortened(value)
        return f"{key} is {text}, expected {_expectation(_TYPES[key], text)}"
    return None


def _known_keys(key: str) -> str:
    """Return a hint about existing keys for the unknown `key`."""
    section, _, name = key.rpartition(".")
    if elsewhere := [known for known in _TYPES if known.rpartition(".")[2] == name]:
        return f"did you mean {' or '.join(elsewhere)}?"
    known = [item.partition(".")[2] for item in _TYPES if item.startswith(f"{section}.")]
    names = f"known in {section}: {', '.join(known)}" if known else f"known in a configuration: {', '.join(_SECTIONS)}"
    return did_you_mean(key, _TYPES if section else _SECTIONS, cutoff=0.65) or names


def _expectation(kind: Any, text: str) -> str:
    """Describe the values of a setting of type `kind`. Suggest a choice that is similar to `text`."""
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        meant = did_you_mean(text, choices)
        return f"one of {', '.join(choices)}" + (f"; {meant}" if meant else "")
    if get_origin(kind) is list:
        return "a list such as [a,b]" if str in get_args(kind) else "a list of numbers such as [1,2]"
    if parts := get_args(kind):
        return " or ".join(_expectation(part, text) for part in parts)
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", NoneType: "null"}
    return names[kind]


_SECTIONS = get_type_hints(Config)
_TYPES = {f"{name}.{key}": kind for name, section in _SECTIONS.items() for key, kind in get_type_hints(section).items()}
_NETWORKS = {"generator", "discriminator"} | {name for method in METHODS.values() for name in method.networks}
_OF_NETWORKS = {f"init.{name}": name for name in _NETWORKS}
_EMPTY: DictConfig = OmegaConf.structured(Config)  # created once, because this is the slowest step of reading
for _section in _SECTIONS:  # sections of frozen dataclasses are read-only by default
    OmegaConf.set_readonly(OmegaConf.select(_EMPTY, _section), False)
