"""The prose of code and documents keeps to the field's words; see CONTRIBUTING.md."""

import ast
import re
from pathlib import Path

import pytest

from tests.test_layering import product_sources

ROOT = Path(__file__).parents[1]
NOT_SAID = re.compile(
    r"\banew\b|\bas ever\b|\bways? out\b|\bstands? against\b|\bin words\b|\bg(?:o|oes|oing|one) on (?:from|with|at)\b"
    r"|\btak(?:e|es|en|ing) along\b|\btold\b|\btells?\b",
    re.IGNORECASE,
)
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "configs").glob("*.yaml")]


def sources() -> dict[str, str]:
    """Return the text of each Python file, those of the tests but this one among them."""
    tests = [file for file in (ROOT / "tests").rglob("*.py") if file != Path(__file__)]
    return product_sources() | {file.relative_to(ROOT).as_posix(): file.read_text() for file in tests}


def docstrings(source: str) -> list[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]


def test_no_docstring_begins_with_what() -> None:
    assert [
        f"{path}: {text}"
        for path, source in sources().items()
        for text in docstrings(source)
        if text.startswith("What")
    ] == []


def test_code_and_documents_use_no_private_idiom() -> None:
    texts = sources() | {path.relative_to(ROOT).as_posix(): path.read_text() for path in DOCUMENTS}
    found = [f"{path}: {match[0]}" for path, text in texts.items() for match in NOT_SAID.finditer(text)]
    assert found == []


@pytest.mark.parametrize("text", ["It starts anew.", "The way out is:", "A run goes on from there."])
def test_an_idiom_is_found(text: str) -> None:
    assert NOT_SAID.search(text)
