"""The setting data.source_folder, which names one folder or several."""

from utils.errors import ConfigError


def read_source_folder(value: object, key: str) -> str | list[str] | None:
    """Return one folder as a text, several as a list, from such or from a text `[A,B]` as it is typed.

    Raises:
        ConfigError: the value is something else.
    """
    if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        value = [name.strip().strip("\"'") for name in value[1:-1].split(",")] if value[1:-1].strip() else []
    if value is None or isinstance(value, str):
        return value
    expected = "a folder, or several such as [{split}_rgb,{split}_depth]"
    if not isinstance(value, list) or not value or not all(isinstance(name, str) and name.strip() for name in value):
        raise ConfigError(f"{key} is {value}, expected {expected}")
    return value if len(value) > 1 else value[0]
