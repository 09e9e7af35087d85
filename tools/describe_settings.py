"""Write what configs/schema.py says of each setting: python -m tools.describe_settings.

Rewrites configs/reference.yaml, a configuration of all defaults, and docs/configuration.md, a table for each section.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from configs import schema
from configs.schema import Config
from utils.cli import ArgumentParser, run_entry_point

ROOT = Path(__file__).parents[1]
REFERENCE, TABLES = ROOT / "configs" / "reference.yaml", ROOT / "docs" / "configuration.md"
_WIDTH = 120
_TYPES = {bool: "true or false", int: "whole number", float: "number", str: "text", type(None): "null"}
_INTRODUCTION = """\
# Configuration

Written by `python -m tools.describe_settings` from [configs/schema.py](../configs/schema.py); the same as YAML is
[configs/reference.yaml](../configs/reference.yaml).

A configuration is a YAML file of these sections; what it leaves out has its default. On the command line
`section.key=value` wins over the file: `optimizer.learning_rate=1e-4`, `train.freeze_generator=[stem,downs.0]`,
`train.max_steps=null`. What a run really uses:

    python train.py --config configs/demo.yaml train.batch_size=4 --print-config

A wrong key or value ends in a line that names it and what was expected. `--dry-run` lists settings that have no effect
beside the others.
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
    """The sections of a configuration, in the order of the schema."""
    classes = {node.name: node for node in ast.parse(inspect.getsource(schema)).body if isinstance(node, ast.ClassDef)}
    return _section(Config(), "", "", classes).sections


def reference_yaml(sections: Sequence[Section]) -> str:
    """Every key with its default and meaning, as YAML."""
    head = "# Every key with its default and meaning. No recipe: copy what you want to change into a file of your own."
    lines = [head]
    for section in sections:
        lines += ["", *_yaml_section(section, indent="")]
    return "\n".join(lines) + "\n"


def configuration_page(sections: Sequence[Section]) -> str:
    """A table for each section, as Markdown."""
    return _INTRODUCTION + "".join(f"\n{_markdown_section(section)}" for section in sections)


def _section(instance: Any, key: str, meaning: str, classes: dict[str, ast.ClassDef]) -> Section:
    kind = type(instance)
    kinds, meanings = get_type_hints(kind), _documented_fields(classes[kind.__name__])
    settings, sections = [], []
    for name in (field.name for field in fields(kind)):
        value, meaning_of_field = getattr(instance, name), meanings.get(name, "")
        if is_dataclass(value):
            path = f"{key}.{name}" if key else name
            sections.append(_section(value, path, meaning_of_field or inspect.getdoc(type(value)) or "", classes))
        else:
            settings.append(Setting(name, value, kinds[name], meaning_of_field))
    return Section(key, meaning, settings, sections)


def _documented_fields(node: ast.ClassDef) -> dict[str, str]:
    """The texts below the fields of a class; Python itself forgets them."""
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
        yield f"{indent}  {setting.name}: {value}"
    for inner in section.sections:
        yield from _yaml_section(inner, f"{indent}  ")


def _comment(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def _markdown_section(section: Section) -> str:
    rows = [
        f"| `{setting.name}` | {_in_cell(type_in_words(setting.kind))} | `{yaml_value(setting.default)}` "
        f"| {_in_cell(setting.meaning)} |"
        for setting in section.settings
    ]
    head = [f"## {section.key}", "", section.meaning, "", "| key | value | default | meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n" + "".join(f"\n{_markdown_section(inner)}" for inner in section.sections)


def _in_cell(text: str) -> str:
    """`text` as Markdown shows it in a table; what looks like a tag is shown too."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("**", "\\*\\*")


def type_in_words(kind: Any) -> str:
    """What a setting of a type takes: `whole number`, or the choices."""
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    if get_origin(kind) is list:
        return "list of texts"
    if parts := get_args(kind):
        return " or ".join(type_in_words(part) for part in parts)
    return _TYPES[kind]


def yaml_value(value: object) -> str:
    """A default as YAML writes it."""
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
    """Rewrite both files."""
    ArgumentParser(
        description="Write configs/reference.yaml and docs/configuration.md from configs/schema.py."
    ).parse_args(argv)
    sections = read_sections()
    REFERENCE.write_text(reference_yaml(sections), encoding="utf-8")
    TABLES.write_text(configuration_page(sections), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
