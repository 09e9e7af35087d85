"""Print every setting with its default and meaning; --write puts it into configs/reference.yaml."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from configs.schema import Config
from utils.cli import ArgumentParser, run_entry_point

REFERENCE = Path(__file__).parents[1] / "configs" / "reference.yaml"
_WIDTH = 120
_TYPES = {int: "whole number", float: "number", str: "text", type(None): "null"}
_HEAD = """\
# Every key with its default and meaning. This is no recipe: copy what you want to change into a file of your own.
# The command line overrides the file: train.batch_size=4, train.freeze=[generator.stem], train.max_steps=null.
# A wrong key or value is reported with what was expected. To print what a run uses:
#   python train.py --config FILE [section.key=value ...] --print-config
# Written by python -m tools.describe_settings --write from configs/schema.
"""


@dataclass(frozen=True)
class Setting:
    """One key. name: without its section; default: as Python has it; kind: its annotation, resolved."""

    name: str
    default: object
    kind: Any
    meaning: str


@dataclass(frozen=True)
class Section:
    """One section. key: with those above it, as `data.synthetic`."""

    key: str
    meaning: str
    settings: list[Setting]
    sections: "list[Section]"


def read_sections() -> list[Section]:
    """Return the sections of a configuration, in the order of the schema."""
    return _section(Config(), "", "").sections


def reference_yaml(sections: Sequence[Section]) -> str:
    """Return every key with its default and meaning, as YAML."""
    return _HEAD + "".join("\n" + "\n".join(_yaml_section(section, indent="")) + "\n" for section in sections)


def _section(instance: Any, key: str, meaning: str) -> Section:
    kind = type(instance)
    kinds, meanings = get_type_hints(kind), documented_fields(kind)
    settings, sections = [], []
    for name in (field.name for field in fields(kind)):
        value, meaning_of_field = getattr(instance, name), meanings.get(name, "")
        if is_dataclass(value):
            path = f"{key}.{name}" if key else name
            sections.append(_section(value, path, meaning_of_field or inspect.getdoc(type(value)) or ""))
        else:
            settings.append(Setting(name, value, kinds[name], meaning_of_field))
    return Section(key, meaning, settings, sections)


def documented_fields(section: type) -> dict[str, str]:
    """Return the texts below the fields of a class, which Python does not keep."""
    (node,) = ast.parse(inspect.getsource(section)).body
    assert isinstance(node, ast.ClassDef)
    texts = {}
    for statement, text in zip(node.body, node.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            assert isinstance(statement.target, ast.Name)
            texts[statement.target.id] = " ".join(str(text.value.value).split())
    return texts


def _yaml_section(section: Section, indent: str) -> Iterator[str]:
    name = section.key.rpartition(".")[2]
    yield from _comment(section.meaning, indent)
    yield f"{indent}{name}:"
    for setting in section.settings:
        yield from _comment(setting.meaning, f"{indent}  ")
        value = "reference" if (section.key, setting.name) == ("run", "name") else yaml_value(setting.default)
        yield f"{indent}  {setting.name}: {value}{_choices(setting.kind)}"
    for inner in section.sections:
        yield from _yaml_section(inner, f"{indent}  ")


def _comment(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def _choices(kind: Any) -> str:
    """Return the choices of a Literal or the types of a union as a comment; other types are seen from the default."""
    return f"  # {type_name(kind)}" if get_origin(kind) in (Literal, UnionType) else ""


def type_name(kind: Any) -> str:
    """Return what a Literal, a union or a type of a setting takes: `whole number or null`, or the choices."""
    if get_origin(kind) is Literal:
        return ", ".join(str(choice) for choice in get_args(kind))
    if get_origin(kind) is list:
        return "list"
    if parts := get_args(kind):
        return " or ".join(type_name(part) for part in parts)
    return _TYPES[kind]


def yaml_value(value: object) -> str:
    """Return a default as YAML writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and 0 < abs(value) < 1e-3:
        mantissa, _, exponent = f"{value:e}".partition("e")
        return f"{float(mantissa)}e{int(exponent)}"
    if isinstance(value, str) and (not value or "{" in value):
        return f'"{value}"'
    return str(value)


def main(argv: Sequence[str]) -> None:
    """Print the settings, or rewrite the file."""
    parser = ArgumentParser(description="Print every setting with its default and meaning.")
    parser.add_argument("--write", action="store_true", help="rewrite configs/reference.yaml, which holds them")
    text = reference_yaml(read_sections())
    if parser.parse_args(argv).write:
        REFERENCE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
