"""The page of the validation samples of long runs."""

import json
import re
from pathlib import Path
from typing import Any

from training.report.sinks import SHOWN_VALIDATIONS, Page


def test_the_page_of_a_long_run_shows_the_latest_steps(tmp_path: Path) -> None:
    web, n_steps = tmp_path / "run" / "web", 1000
    web.mkdir(parents=True)
    row = {"images": {"translated": "x.png"}, "metrics": {}}
    rows = [{"step": step, "name": name, **row} for step in range(n_steps) for name in "ab"]
    (web / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    Page(web).write()
    page = (web / "index.html").read_text()
    steps = [int(step) for step in re.findall(r'data-name="a, step (\d+)"', page)]
    assert steps == list(range(n_steps - 1, n_steps - 1 - SHOWN_VALIDATIONS, -1))
    assert page.count("<article") == 2 * len(steps)
    assert f"<h1>run, {len(steps)} of 1000 validations</h1>" in page


def test_damaged_rows_are_left_out_of_the_page(tmp_path: Path) -> None:
    web = tmp_path / "run" / "web"
    web.mkdir(parents=True)
    good: dict[str, Any] = {"step": 1, "name": "good", "images": {"translated": "x.png"}, "metrics": {"l1": None}}
    wrong: list[dict[str, Any]] = [
        {"images": 3},
        {"images": {"source": 3}},
        {"metrics": [1]},
        {"metrics": {"l1": "a"}},
        {"name": None},
    ]
    rows = [good, *(good | {"name": "wrong"} | change for change in wrong)]
    (web / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    Page(web).write()
    assert re.findall('data-name="(.*?)"', (web / "index.html").read_text()) == ["good, step 1"]
