"""Print every setting with its default and meaning. With --write, rewrite configs/reference.yaml instead."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from configs.schema import Config
from configs.schema.run import RunConfig
from utils.cli import ArgumentParser, run_entry_point

REFERENCE = Path(__file__).parents[1] / "configs" / "reference.yaml"
_WIDTH = 120
_TYPES = {int: "whole number", float: "number", str: "text", type(None): "null"}
_HEAD = """\
# Every key with its default and meaning. This is no recipe: copy what you want to change into a file of your own.
# The command line overrides the file: train.batch_size=4, train.freeze=[generator.stem], train.max_steps=null.
# For a wrong key or value, the program reports what it expected. To print the settings of a run:
#   python train.py --config FILE [section.key=value ...] --print-config
# Written by python -m tools.describe_settings --write from configs/schema.
"""


def reference_yaml() -> str:
    """Return a YAML text with the default and meaning of every setting."""
    return _HEAD + "\n".join(_lines(Config(run=RunConfig(name="reference")), indent="")) + "\n"


def _lines(section: Any, indent: str) -> Iterator[str]:
    """Yield the lines of a section: first its settings, then its subsections."""
    kinds, meanings = get_type_hints(type(section)), documented_fields(type(section))
    for name, value in sorted(vars(section).items(), key=lambda item: is_dataclass(item[1])):
        if is_dataclass(value):
            yield from [] if indent else [""]
            yield from _comment(meanings.get(name) or inspect.getdoc(type(value)) or "", indent)
            yield f"{indent}{name}:"
            yield from _lines(value, f"{indent}  ")
        else:
            yield from _comment(meanings.get(name, ""), indent)
            is_listed = get_origin(kinds[name]) in (Literal, UnionType)  # otherwise the default shows the type
            yield f"{indent}{name}: {yaml_value(value)}{f'  # {type_name(kinds[name])}' if is_listed else ''}"


def documented_fields(section: type) -> dict[str, str]:
    """Return the docstring of each field by name. Python discards these docstrings, so parse the source code."""
    (node,) = ast.parse(inspect.getsource(section)).body
    assert isinstance(node, ast.ClassDef)
    texts = {}
    for statement, text in zip(node.body, node.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            assert isinstance(statement.target, ast.Name)
            texts[statement.target.id] = " ".join(str(text.value.value).split())
    return texts


def _comment(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def type_name(kind: Any) -> str:
    """Return the values that a type accepts, for example `whole number or null`. For a Literal, list the choices."""
    if get_origin(kind) is Literal:
        return ", ".join(str(choice) for choice in get_args(kind))
    if get_origin(kind) is list:
        return "list"
    if parts := get_args(kind):
        return " or ".join(type_name(part) for part in parts)
    return _TYPES[kind]


def yaml_value(value: object) -> str:
    """Return the YAML text of a default."""
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
    """Print all settings, or rewrite configs/reference.yaml."""
    parser = ArgumentParser(description="Print every setting with its default and meaning.")
    parser.add_argument("--write", action="store_true", help="rewrite configs/reference.yaml and print nothing")
    text = reference_yaml()
    if parser.parse_args(argv).write:
        REFERENCE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
