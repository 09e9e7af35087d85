"""The report of a GPU, tried on the CPU: its parts, and what an interrupted one measures when it is called again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import bench.gpu_report
import bench.measure
from bench.gpu_report import main, run_tests
from bench.measure import Timed
from tests.reliability.command_line import CommandLine


def test_the_parts_of_a_report_are_one_file_and_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def timed(sides: Mapping[str, object], device: torch.device, repeats: int) -> dict[str, Timed]:
        measured.extend(sides)
        return {side: Timed([0.5] * repeats, peak_gib=1.0) for side in sides}

    monkeypatch.setattr(bench.measure, "time_processes", timed)
    monkeypatch.setattr(bench.gpu_report, "run_tests", lambda *_: [{"case": "marked gpu", "failed": []}])
    arguments = ["--device", "cpu", "--output", str(tmp_path / "new" / "report.json")]
    main(arguments)
    report: dict[str, Any] = json.loads((tmp_path / "new" / "report.json").read_text())
    assert list(report) == ["surroundings", "tests", "train_step", "inference"]
    assert {"device", "torch_version", "commit"} <= report["surroundings"].keys()
    assert [(row["case"], row["side"]) for row in report["train_step"]] == [("tiny", "reference"), ("tiny", "O2")]
    assert [row["images/s"] for row in report["inference"]] == [4.0, 4.0]
    assert measured == ["reference", "O2", "reference", "O2"]

    report["inference"] = []
    report["tests"][0]["failed"] = ["tests.x"]
    (tmp_path / "new" / "report.json").write_text(json.dumps(report))
    measured.clear()
    main(arguments)
    assert measured == ["reference", "O2"]
    assert json.loads((tmp_path / "new" / "report.json").read_text())["tests"][0]["failed"] == []


def test_tests_are_counted_and_those_that_fail_named(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu")
    (tmp_path / "test_x.py").write_text(
        "import pytest\n@pytest.mark.gpu\n@pytest.mark.parametrize('n', [1, 2])\ndef test_one(n): assert n == 1\n"
        "def test_other(): assert False\n"
    )
    (row,) = run_tests(str(tmp_path))
    assert row == {"case": "marked gpu", "tests": 2, "skipped": 0, "failed": ["test_x.test_one[2]"]}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_in_one_line(command_line: CommandLine, tmp_path: Path) -> None:
    (line,) = command_line.refusal(main, "--output", str(tmp_path / "report.json"))
    assert line.startswith("error: --device cuda: torch finds no GPU on this machine")


@pytest.mark.slow
def test_all_parts_run_on_a_cpu(tmp_path: Path) -> None:
    main(["--device", "cpu", "--output", str(tmp_path / "report.json")])
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["tests"][0]["tests"] == report["tests"][0]["skipped"] > 0
    assert all(row["s"] > 0 for part in ("train_step", "inference") for row in report[part])
