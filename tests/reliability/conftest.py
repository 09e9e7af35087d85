"""Counts the cases of each row of the matrix, and writes the table of docs/reliability.md on request.

A test names its row by `pytest.mark.row(N)`, for a whole file `pytestmark`; a loop reports the number of its cases by
`record_property("cases", N)`.
"""

import platform
from collections import Counter
from collections.abc import Generator
from datetime import UTC, datetime

import pytest
import torch

from tests.reliability.matrix import write_table

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
    if session.config.getoption("--write-table"):
        today = datetime.now(UTC).date().isoformat()
        versions = f"Python {platform.python_version()}, torch {torch.__version__}"
        write_table(_passed, _failed, f"Last long run: {today}, {versions}, {platform.system()}.")
