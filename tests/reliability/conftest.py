"""Counts the cases of each row of the matrix, and writes the table of docs/reliability.md on request.

A test names its row by `pytest.mark.row(N)`, for a whole file `pytestmark`; a loop reports the number of its cases by
`record_property("cases", N)`.
"""

import platform
from collections import Counter
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch

TABLE = Path(__file__).parents[2] / "docs" / "reliability.md"

REST = "Cases passed unless a row names failures."

_passed: Counter[int] = Counter()
_failed: Counter[int] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-table", action="store_true", help="write the counts into docs/reliability.md")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    row = item.get_closest_marker("row")
    if row is not None and (report.when == "call" or report.failed):
        cases = next((int(str(value)) for key, value in report.user_properties if key == "cases"), 1)
        if report.passed:
            _passed[row.args[0]] += cases
        elif report.failed:
            _failed[row.args[0]] += 1
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Put the counts of this run into the rows, with its date and versions."""
    if not session.config.getoption("--write-table"):
        return
    today = datetime.now(UTC).date().isoformat()
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    for place, line in enumerate(lines):
        _, number, *texts = [*(part.strip() for part in line.split("|")), ""]
        if line.startswith("Last long run: "):
            versions = f"Python {platform.python_version()}, torch {torch.__version__}"
            lines[place] = f"Last long run: {today}, {versions}, {platform.system()}. {REST}"
        elif number.isdecimal() and (row := int(number)) in _passed | _failed:
            failures = f", {_failed[row]} failed" if _failed[row] else ""
            lines[place] = f"| {number} | {texts[0]} | {texts[1]} | {_passed[row] + _failed[row]}{failures} |"
    TABLE.write_text("\n".join([*lines, ""]), encoding="utf-8")
