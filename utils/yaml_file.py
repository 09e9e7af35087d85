"""YAML read as plain values: strings, integers, lists and mappings.

YAML's own rules for scalars are switched off, since the schema knows the type of each setting: `no`, `1e3` and `010`
stay strings here, so that a run may have such a name and a learning rate may be 1e-4.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml

from utils.errors import ConfigError

MAX_BYTES = 2**17  # of a file; ten times the size of configs/reference.yaml
MAX_VALUES = 10_000  # in a file, counted again for each alias: a few hundred bytes can expand to billions
_YAML = "tag:yaml.org,2002:"
_TAGS = frozenset(_YAML + name for name in ("map", "seq", "str", "null", "merge"))
_WHOLE_NUMBER = re.compile(r"(0|-?[1-9][0-9]{0,17})\Z")


def shortened(value: object) -> str:
    """Return a value as YAML writes it, in one line of at most 80 characters."""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= 80 else f"{text[:60]} … ({len(text)} characters)"


class _Loader(yaml.SafeLoader):
    """YAML whose scalars are null, plain integers or strings; in YAML 1.1 `no` is a boolean and `1:30` a number."""


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver(f"{_YAML}null", re.compile(r"(~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(f"{_YAML}int", _WHOLE_NUMBER, list("-0123456789"))
_Loader.add_implicit_resolver(f"{_YAML}merge", re.compile(r"<<\Z"), ["<"])


def read_yaml(path: Path) -> object:
    """Return the plain values of a YAML file.

    Raises:
        OSError: the file is missing or cannot be read.
        ConfigError: it is not YAML, is too large, or has a key twice.
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
        raise ConfigError(
            f"{path}: not a text file in UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, origin: str) -> object:
    """Return the plain values of a YAML text; `origin` names it in errors.

    Raises:
        ConfigError: the text is not YAML, has a key twice, or expands to more than MAX_VALUES values.
    """
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        problems = list(_problems_of_nodes(root)) if root else []
        if not problems:
            return loader.construct_document(root) if root else None
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:  # the last two of "\Uffffffff"
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        reason = str(getattr(error, "problem", error)).partition("\n")[0]
        hint = "; indent with spaces" if r"'\t'" in reason else ""
        raise ConfigError(f"{origin}{line}: not valid YAML: {reason}{hint}") from error
    raise ConfigError(*(f"{origin}, {problem}" for problem in problems))


def _problems_of_nodes(root: yaml.Node) -> Iterator[str]:
    """Yield duplicate keys, values of types that no setting has, and too many values by aliases."""
    nodes = [root]
    for _ in range(MAX_VALUES):
        if not nodes:
            return
        node = nodes.pop()
        line = f"line {node.start_mark.line + 1}"
        is_number = isinstance(node, yaml.ScalarNode) and node.tag == f"{_YAML}int" and _WHOLE_NUMBER.match(node.value)
        if node.tag not in _TAGS and not is_number:
            yield f"{line}: the tag {node.tag.replace(_YAML, '!!')} is not supported; write the value alone"
        if isinstance(node, yaml.MappingNode):
            keys = Counter(shortened(key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode))
            yield from (f"{line}: found duplicate key {key}; keep one" for key, count in keys.items() if count > 1)
            nodes += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
    yield f"line 1: the file expands to more than {MAX_VALUES} values, counted with aliases"
