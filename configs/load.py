"""YAML file + command-line overrides -> Config, and back."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
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
    return _resolve(_parse(text, str(path)), overrides, str(path))


def config_from_dict(values: dict[str, Any], origin: str, overrides: Sequence[str] = ()) -> Config:
    """The Config that `config_to_dict` took apart, with overrides; `origin` names it in errors."""
    return _resolve(OmegaConf.create(values), overrides, origin)


def config_to_dict(config: Config) -> dict[str, Any]:
    """The settings as nested dicts of plain types, as a checkpoint holds them."""
    return cast(dict[str, Any], OmegaConf.to_container(OmegaConf.structured(config)))


def config_to_yaml(config: Config) -> str:
    """The settings as YAML that `load_config` reads."""
    return OmegaConf.to_yaml(OmegaConf.structured(config))


def config_differences(old: Config, new: Config) -> dict[str, tuple[object, object]]:
    """The settings that differ: `section.key` -> (old value, new value)."""
    before, after = settings_by_key(old), settings_by_key(new)
    return {key: (before[key], after[key]) for key in after if before[key] != after[key]}


def settings_by_key(config: Config) -> dict[str, object]:
    """`section.key` -> value, in the order of the schema."""
    return _flatten(config_to_dict(config))


def _flatten(values: dict[str, Any], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in values.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _resolve(values: DictConfig, overrides: Sequence[str], origin: str) -> Config:
    config = OmegaConf.structured(Config)
    OmegaConf.set_readonly(config, False)  # frozen dataclasses come read-only; the merge is made before they exist
    config = _merge(config, values, origin)
    for override in overrides:
        config = _merge(config, _parse_override(override), f"{override!r} on the command line")
    try:
        return cast(Config, OmegaConf.to_object(config))
    except (ConfigError, OmegaConfBaseException) as error:
        # OmegaConf wraps what a section's own check raises
        cause = error if isinstance(error, ConfigError) else error.__cause__
        message = str(cause if isinstance(cause, ConfigError) else error).splitlines()[0]
        raise ConfigError(f"{origin}{' with the command line' if overrides else ''}: {message}") from error


def _parse(text: str, origin: str) -> DictConfig:
    try:
        parsed = OmegaConf.create(text)
    except (YAMLError, OmegaConfBaseException) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        raise ConfigError(f"{origin}{line}: not valid YAML: {getattr(error, 'problem', error)}") from error
    except AssertionError as error:  # a bare number or word
        raise ConfigError(f"{origin}: expected sections such as `run:` and `data:`") from error
    if not isinstance(parsed, DictConfig):
        raise ConfigError(f"{origin}: expected sections such as `run:` and `data:`, found a list")
    for section in fields(Config):
        if section.name in parsed and parsed[section.name] is None:
            del parsed[section.name]  # its keys are all commented out
    return parsed


def _parse_override(override: str) -> DictConfig:
    key, equals, value = override.partition("=")
    if not (equals and all(key.split("."))):
        raise ConfigError(f"{override!r} on the command line: write section.key=value, for instance run.seed=1")
    if key in _TEXT_KEYS and value != "null":  # as typed: a run may be called 1e3, or no
        parsed = OmegaConf.create({})
        OmegaConf.update(parsed, key, value)
        return parsed
    try:
        return OmegaConf.from_dotlist([override])
    except (YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{override!r} on the command line: the value is not valid YAML") from error


def _text_keys(settings: object, prefix: str = "") -> Iterator[str]:
    """`section.key` of every setting that is free text."""
    for setting in fields(cast(Any, settings)):
        value = getattr(settings, setting.name)
        if is_dataclass(value):
            yield from _text_keys(value, f"{prefix}{setting.name}.")
        elif setting.type in (str, str | None):
            yield prefix + setting.name


_TEXT_KEYS = frozenset(_text_keys(Config()))


def _merge(base: DictConfig, update: DictConfig, origin: str) -> DictConfig:
    values = cast(dict[str, Any], OmegaConf.to_container(update, resolve=False))
    for section, content in values.items():
        if section in base and not isinstance(content, dict):
            raise ConfigError(f"{origin}: {section} is a section; write {section}.key=value or keys below it")
    for key, value in _flatten(values).items():
        if isinstance(value, str) and "${" in value:
            raise ConfigError(f"{origin}: {key} holds ${{...}}, which is not supported; write the value itself")
        if key in _TEXT_KEYS and not isinstance(value, str | None):
            raise ConfigError(f"{origin}: {key} is read as {value!r}; put it in quotes to have it as written")
    try:
        return cast(DictConfig, OmegaConf.merge(base, update))
    except ConfigKeyError as error:
        suggestion = str(error).partition("Did you mean: ")[2].partition("?")[0]
        known = ", ".join(str(key) for key in getattr(error, "parent_node", None) or ())
        hint = f"did you mean {suggestion}?" if suggestion else f"known here: {known}"
        raise ConfigError(f"{origin}: unknown key {error.full_key}; {hint}") from error
    except (OmegaConfBaseException, TypeError) as error:
        wrong_key = getattr(error, "full_key", None)
        where = f"{origin}: {wrong_key}" if wrong_key else origin
        raise ConfigError(f"{where}: {str(error).splitlines()[0]}") from error
