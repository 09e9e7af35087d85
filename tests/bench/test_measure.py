import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import bench.measure
from bench.measure import (
    count_flop,
    forget_peak,
    markdown_table,
    median,
    median_ratio,
    peak_memory_bytes,
    time_alternating,
    write_report,
)
from utils.machine import give_freed_memory_back

CPU = torch.device("cpu")


def test_sides_take_turns() -> None:
    calls: list[str] = []
    sides = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    times = time_alternating(sides, CPU, repeats=3, warm_up=1)
    assert calls == ["a", "b"] * 4
    assert [len(times[side]) for side in "ab"] == [3, 3]


def test_each_call_is_timed_and_the_median_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 1.0, 1.0, 4.0, 4.0, 6.0])
    monkeypatch.setattr(bench.measure.time, "perf_counter", lambda: next(ticks))
    times = time_alternating({"work": lambda: None}, CPU, repeats=3)["work"]
    assert times == [1.0, 3.0, 2.0]
    assert median(times) == 2.0


def test_arithmetic_is_counted() -> None:
    x, weight = torch.ones(1, 2, 8, 8), torch.ones(3, 2, 3, 3)
    assert count_flop(lambda: F.conv2d(x, weight, padding=1)) == 2 * 3 * 2 * 9 * 64


def test_ratios_are_of_the_same_turn() -> None:
    assert median_ratio([2.0, 40.0, 6.0], [1.0, 10.0, 2.0]) == 3.0


def test_the_peak_is_of_what_follows() -> None:
    forget_peak(CPU)
    before = peak_memory_bytes(CPU)
    large = torch.ones(2**26, dtype=torch.uint8)
    assert peak_memory_bytes(CPU) >= before + 2**25
    del large
    give_freed_memory_back()  # which an earlier test may have had kept
    forget_peak(CPU)
    assert peak_memory_bytes(CPU) < before + 2**25


def test_a_report_tells_where_it_was_measured(tmp_path: Path) -> None:
    path = write_report("speed", CPU, [{"case": "x", "s": 0.12345}], results=tmp_path)
    report = json.loads(path.read_text())
    assert report["rows"] == [{"case": "x", "s": 0.12345}]
    assert report["surroundings"]["torch_version"] == torch.__version__
    assert report["surroundings"]["threads"] >= 1
    assert markdown_table(report["rows"]) == "| case | s |\n| --- | --- |\n| x | 0.123 |"


def test_parts_of_a_measurement_are_put_together(tmp_path: Path) -> None:
    rows = [{"case": "x", "side": side, "s": 1.0} for side in ("a", "b")]
    write_report("speed", CPU, rows[:1], results=tmp_path)
    write_report("speed", CPU, rows[1:], results=tmp_path)
    again = {"case": "x", "side": "a", "s": 2.0}
    path = write_report("speed", CPU, [again], results=tmp_path)
    assert json.loads(path.read_text())["rows"] == [rows[1], again]
    other = json.loads(path.read_text())
    other["surroundings"]["commit"] = "another"
    path.write_text(json.dumps(other))
    assert json.loads(write_report("speed", CPU, [again], results=tmp_path).read_text())["rows"] == [again]
