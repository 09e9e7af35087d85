"""The report of a GPU survives parts that fail, hang or find no time. The parts here are small programs."""

import json
from pathlib import Path

import pytest
import torch

from bench.gpu_report import PARTS, Part, write_report
from bench.train_step import GPU_CASES, SETTINGS

_WRITES = (
    'import json, pathlib, sys; pathlib.Path(sys.argv[1], "x_cuda.json").write_text(json.dumps({"rows": [{"s": 2}]}))'
)


def test_a_failed_and_a_hanging_part_are_recorded_and_the_next_ones_run(tmp_path: Path) -> None:
    parts = [
        Part("fails", ["-c", "print('why'); raise SystemExit(3)"], 60),
        Part("hangs", ["-c", "import time; time.sleep(60)"], 0.5),
        Part("measures", ["-c", _WRITES, "RESULTS"], 60),
    ]
    path = tmp_path / "new" / "report.json"
    assert not write_report(path, parts, torch.device("cpu"))
    fails, hangs, measures = json.loads(path.read_text())["parts"]
    assert (fails["problem"], fails["last lines"]) == ("exit code 3", ["why"])
    assert hangs["problem"] == "ended after 0.5 s"
    assert (measures["problem"], measures["rows"]) == (None, [{"s": 2}])


def test_a_part_without_time_is_recorded(tmp_path: Path) -> None:
    assert not write_report(tmp_path / "report.json", [Part("late", ["-c", ""], 60)], torch.device("cpu"), limit_s=0)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["parts"][0]["problem"] == "no time was left"
    assert report["surroundings"]["torch_version"] == torch.__version__


@pytest.mark.parametrize("part", [part for part in PARTS if "--side" in part.arguments], ids=lambda part: part.name)
def test_parts_name_cases_and_sides_that_exist(part: Part) -> None:
    names = part.arguments[part.arguments.index("--case") + 1 :]
    cases, sides = names[: names.index("--side")], names[names.index("--side") + 1 :]
    assert {*cases} <= {case.name for case in GPU_CASES}
    assert {*sides} <= SETTINGS.keys()
