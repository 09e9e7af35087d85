import io
import json
import sys
from pathlib import Path

import pytest
import torch

import bench.measure
from bench.cases import Case
from bench.measure import (
    Timed,
    Work,
    compare,
    forget_peak,
    markdown_table,
    median_ratio,
    peak_memory_bytes,
    serve,
    time_against_first,
    time_alternating,
    time_processes,
    write_report,
)
from utils.machine import give_freed_memory_back
from utils.precision import OptLevel

CPU = torch.device("cpu")


def test_sides_take_turns_and_each_call_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    sides = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    ticks = iter([0.0, 1.0, 1.0, 4.0, 4.0, 6.0, 6.0, 6.0])
    monkeypatch.setattr(bench.measure.time, "perf_counter", lambda: next(ticks))
    times = time_alternating(sides, CPU, repeats=2, warm_up=1)
    assert calls == ["a", "b"] * 3
    assert times == {"a": [1.0, 2.0], "b": [3.0, 0.0]}


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


SIDE = "import sys; input(); print('ready', flush=True)\nfor line in sys.stdin: print({seconds}, flush=True)\nprint(7)"


def commands(*seconds: str) -> dict[str, list[str]]:
    return {name: [sys.executable, "-c", SIDE.format(seconds=name)] for name in seconds}


def test_processes_answer_each_call_and_each_side_comes_with_the_first() -> None:
    assert time_processes(commands("1"), repeats=2) == {"1": Timed([1, 1], 7)}
    found = list(time_against_first(commands("1", "2"), CPU, 1))
    assert found == [("1", Timed([1], 7), Timed([1], 7)), ("2", Timed([2], 7), Timed([1], 7))]


def test_a_side_that_ends_is_an_error_or_left_out_where_it_does_not_fit_a_gpu(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sides = commands("1") | {"large": [sys.executable, "-c", "raise SystemExit(3)"]}
    with pytest.raises(RuntimeError, match="ended with code 3"):
        list(time_against_first(sides, CPU, 1))
    assert [name for name, *_ in time_against_first(sides, torch.device("cuda"), 1)] == ["1"]
    assert "large: a measuring process ended with code 3" in capsys.readouterr().out


def test_a_side_answers_every_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[int] = []
    monkeypatch.setattr(bench.measure, "TURN_S", 0)
    monkeypatch.setattr(sys, "stdin", io.StringIO("begin\ngo\ngo\n"))
    serve(lambda: lambda: calls.append(1), CPU, warm_up=2)
    ready, *seconds, peak_gib = capsys.readouterr().out.split()
    assert (ready, len(calls), len(seconds)) == ("ready", 4, 2)
    assert all(float(answer) >= 0 for answer in (*seconds, peak_gib))


def test_a_turn_of_short_calls_is_the_mean_of_many(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[int] = []

    def time_by_count(sides: dict[str, Work], *_: object, **__: object) -> dict[str, list[float]]:
        n_before = len(calls)
        sides[""]()
        return {"": [0.1 * (len(calls) - n_before)]}  # each takes 0.1 s

    monkeypatch.setattr(bench.measure, "time_alternating", time_by_count)
    monkeypatch.setattr(sys, "stdin", io.StringIO("begin\ngo\n"))
    serve(lambda: lambda: calls.append(1), CPU, warm_up=0)
    assert len(calls) == 1 + 5
    assert float(capsys.readouterr().out.split()[1]) == pytest.approx(0.1)


def test_a_side_that_is_not_begun_makes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    serve(lambda: pytest.fail("made"), CPU, warm_up=1)


def test_sides_are_compared_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = Timed([4.0, 40.0, 4.0], 2.0), Timed([1.0, 10.0, 2.0], 3.0)
    timed = [("reference", first, first), ("ours", other, first)]
    monkeypatch.setattr(bench.measure, "time_against_first", lambda *_: timed)
    levels: dict[str, OptLevel] = {"reference": "O0", "ours": "O0"}
    reference, ours = compare("bench.x", Case("x", 32, 32, batch_size=8), levels, CPU, repeats=3)
    expected = {"case": "x", "side": "ours", "dtype": "float32", "s": 2.0, "images/s": 4.0, "times as fast": 4.0}
    assert ours == expected | {"peak GiB": 3.0, "memory ratio": 1.5}
    assert reference["times as fast"] == reference["memory ratio"] == 1.0
