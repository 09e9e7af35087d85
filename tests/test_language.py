"""Prose of code and documents has none of the phrases that readers stumble over; see CONTRIBUTING.md."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_layering import parsed, product_sources

ROOT = Path(__file__).parents[1]
NOT_SAID = re.compile(
    r"\banew\b|\bas ever\b|\bways? out\b|\bstands? against\b|\bin words\b|\bg(?:o|oes|oing|one) on (?:from|with|at)\b"
    r"|\btak(?:e|es|en|ing) along\b|\btold\b|\btells?\b|\b(?:that|those) of\b|\blikewise\b|\bshall\b|\bbeside\b"
    r"|\bin place of\b|\bin (?:its|their) stead\b|\bby (?:which|whom|whose)\b|\bso that of\b",
    re.IGNORECASE,
)
ARGUMENT = re.compile(r"^\s+[a-z_0-9, ]+: (?:of|where|which|whose|by|as|in|with|for|from|to|that|than|at|on)\b")
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "configs").glob("*.yaml")]


def prose(source: str) -> Iterator[str]:
    """Yield the lines of docstrings, and comments."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (ast.get_docstring(node, clean=False) or "").splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def found(line: str) -> bool:
    return bool(NOT_SAID.search(line) or ARGUMENT.match(line))


def test_product_and_documents_have_no_phrase_that_readers_stumble_over() -> None:
    lines = {path: list(prose(text)) for path, text in product_sources().items()}
    lines |= {path.relative_to(ROOT).as_posix(): path.read_text().splitlines() for path in DOCUMENTS}
    assert [f"{path}: {line.strip()}" for path, of_file in lines.items() for line in of_file if found(line)] == []


@pytest.mark.parametrize("text", ["It starts anew.", "    path: of the file", "The size is that of the target."])
def test_a_phrase_is_found(text: str) -> None:
    assert found(text)
