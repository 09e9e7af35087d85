"""Reads YAML as plain values: null, strings, integers, lists and mappings.

`no`, `1e3` and `010` stay strings, because they can be names of runs. The schema later converts them to its types.
"""

import re
from collections import Counter
from pathlib import Path

import yaml

from utils.errors import ConfigError
from utils.plain_values import NestingError, distinct_values

MAX_BYTES = 2**17
MAX_VALUES = 10_000  # the values of an alias count each time
MAX_PROBLEMS = 50  # maximum number of problems in an error
_YAML = "tag:yaml.org,2002:"
_TAGS = frozenset(_YAML + name for name in ("map", "seq", "str", "null", "merge"))
_WHOLE_NUMBER = re.compile(r"(0|-?[1-9][0-9]{0,17})\Z")


def shortened(value: object) -> str:
    """Return a value in YAML syntax, in one line, shortened to about 80 characters."""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= 80 else f"{text[:60]} … ({len(text)} characters)"


class _Loader(yaml.SafeLoader):
    """Loads scalars only as null, integers or strings. (YAML 1.1 reads `no` as a boolean and `1:30` as a number.)"""


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver(f"{_YAML}null", re.compile(r"(~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(f"{_YAML}int", _WHOLE_NUMBER, list("-0123456789"))
_Loader.add_implicit_resolver(f"{_YAML}merge", re.compile(r"<<\Z"), ["<"])


def read_yaml(path: Path) -> object:
    """Return the plain values of a YAML file.

    Raises:
        OSError: The file cannot be read.
        ConfigError: The file does not exist, is too large, or `parse_yaml` refuses its text.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: not a file; name a YAML file, such as configs/demo.yaml")
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_BYTES // 1024} KiB; name a configuration file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8") from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, origin: str) -> object:
    """Return the plain values of a YAML text. Error messages begin with `origin`.

    Raises:
        ConfigError: The text is not YAML, repeats a key, contains itself, or expands to more than MAX_VALUES values.
    """
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        problems = _problems_of_nodes(root) if root else []
        if not problems:
            return loader.construct_document(root) if root else None
    except NestingError as error:
        line = error.value.start_mark.line + 1
        raise ConfigError(f"{origin}, line {line}: {error}; write it without this nesting") from error
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:  # escapes such as "\Uffffffff"
        mark = getattr(error, "problem_mark", None)
        at_line = "" if mark is None else f", line {mark.line + 1}"
        reason = str(getattr(error, "problem", error)).partition("\n")[0]
        hint = "; indent with spaces" if r"'\t'" in reason else ""
        raise ConfigError(f"{origin}{at_line}: not valid YAML: {reason}{hint}") from error
    raise ConfigError(*(f"{origin}, line {line}: {problem}" for line, problem in problems[:MAX_PROBLEMS]))


def _problems_of_nodes(root: yaml.Node) -> list[tuple[int, str]]:
    """Return (line, problem) pairs for duplicate keys, unsupported tags and too many values."""
    problems = []
    for node, n_values in distinct_values(root, _parts):
        line = node.start_mark.line + 1
        is_number = isinstance(node, yaml.ScalarNode) and node.tag == f"{_YAML}int" and _WHOLE_NUMBER.match(node.value)
        if node.tag not in _TAGS and not is_number:
            tag = node.tag.replace(_YAML, "!!")
            problems.append((line, f"the tag {tag} is not supported; write only the value"))
        if isinstance(node, yaml.MappingNode):
            keys = Counter(shortened(key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode))
            problems += [(line, f"found duplicate key {key}; keep one") for key, count in keys.items() if count > 1]
        if node is root and n_values > MAX_VALUES:
            problems.append((line, f"the file expands to more than {MAX_VALUES} values, aliases included"))
    return sorted(problems)


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []
