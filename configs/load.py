"""YAML file + command-line overrides -> Config, and back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException
from yaml import YAMLError

from configs.schema import Config, ConfigError


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML file and apply overrides of the form `section.key=value`.

    Raises:
        FileNotFoundError: there is no such file.
        ConfigError: it is no YAML, or a key or a value is wrong.
    """
    if not path.is_file():
        known = ", ".join(sorted(str(p) for p in path.parent.glob("*.yaml"))) or "none"
        raise FileNotFoundError(f"{path}: no such configuration file; YAML files beside it: {known}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file ({error.reason} at byte {error.start})") from error
    config = _merge(_schema(), _parse(text, str(path)), str(path))
    for override in overrides:
        key, equals, _ = override.partition("=")
        if not (key and equals):
            raise ConfigError(f"{override!r} on the command line: write section.key=value, for instance run.seed=1")
        config = _merge(config, _parse_override(override), f"{override!r} on the command line")
    return _to_object(config, f"{path} with the command line" if overrides else str(path))


def config_from_dict(values: dict[str, Any], origin: str) -> Config:
    """The Config that `config_to_dict` took apart; `origin` names it in errors."""
    return _to_object(_merge(_schema(), OmegaConf.create(values), origin), origin)


def config_to_dict(config: Config) -> dict[str, Any]:
    """The settings as nested dicts of plain types, as a checkpoint holds them."""
    return cast(dict[str, Any], OmegaConf.to_container(OmegaConf.structured(config)))


def config_to_yaml(config: Config) -> str:
    """The settings as YAML that `load_config` reads."""
    return OmegaConf.to_yaml(OmegaConf.structured(config))


def config_differences(old: Config, new: Config) -> dict[str, tuple[object, object]]:
    """The settings that differ: `section.key` -> (old value, new value)."""
    before, after = _flatten(config_to_dict(old)), _flatten(config_to_dict(new))
    return {key: (before[key], after[key]) for key in after if before[key] != after[key]}


def _flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def _schema() -> DictConfig:
    schema = OmegaConf.structured(Config)
    OmegaConf.set_readonly(schema, False)  # frozen dataclasses come read-only; the merge is made before they exist
    return schema


def _parse(text: str, origin: str) -> DictConfig:
    try:
        parsed = OmegaConf.create(text)
    except (YAMLError, OmegaConfBaseException) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        raise ConfigError(f"{origin}{line}: not valid YAML: {getattr(error, 'problem', error)}") from error
    if not isinstance(parsed, DictConfig):
        raise ConfigError(f"{origin}: expected sections such as `run:` and `data:`, found a list")
    return parsed


def _parse_override(override: str) -> DictConfig:
    try:
        return OmegaConf.from_dotlist([override])
    except (YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{override!r} on the command line: the value is not valid YAML") from error


def _merge(base: DictConfig, update: DictConfig, origin: str) -> DictConfig:
    try:
        return cast(DictConfig, OmegaConf.merge(base, update))
    except ConfigKeyError as error:
        suggestion = str(error).partition("Did you mean: ")[2].partition("?")[0]
        known = ", ".join(str(key) for key in getattr(error, "parent_node", None) or ())
        hint = f"did you mean {suggestion}?" if suggestion else f"known here: {known}"
        raise ConfigError(f"{origin}: unknown key {error.full_key}; {hint}") from error
    except (OmegaConfBaseException, TypeError) as error:
        key = getattr(error, "full_key", None)
        where = f"{origin}: {key}" if key else origin
        raise ConfigError(f"{where}: {str(error).splitlines()[0]}") from error


def _to_object(config: DictConfig, origin: str) -> Config:
    try:
        return cast(Config, OmegaConf.to_object(config))
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from error
    except OmegaConfBaseException as error:
        # OmegaConf wraps what a section's own check raises
        cause = error.__cause__
        message = str(cause) if isinstance(cause, ConfigError) else str(error).splitlines()[0]
        raise ConfigError(f"{origin}: {message}") from error
