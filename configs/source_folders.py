"""The setting data.source_folder, which names one folder or several."""

from utils.errors import ConfigError


def read_source_folder(value: object, key: str) -> str | list[str] | None:
    """Return one folder as a text, several as a list, from such or from a text `[A,B]` as it is typed.

    Raises:
        ConfigError: the value is something else.
    """
    if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        value = [name.strip().strip("\"'") for name in value[1:-1].split(",")] if value[1:-1].strip() else []
    if value is None:
        return None
    given = value if isinstance(value, list) else [value]
    names = [str(name) for name in given if isinstance(name, str | int | float)]  # 2024 in YAML is a number
    if not names or len(names) < len(given) or (isinstance(value, list) and not all(name.strip() for name in names)):
        raise ConfigError(f"{key} is {value}, expected a folder, or several such as [{{split}}_rgb,{{split}}_depth]")
    return names if len(names) > 1 else names[0]
