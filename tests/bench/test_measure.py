import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch

from bench import measure
from bench.cases import Case
from utils.device import OptLevel
from utils.machine import give_freed_memory_back

CPU = torch.device("cpu")


def test_sides_take_turns() -> None:
    calls: list[str] = []
    sides = {name: partial(calls.append, name) for name in "ab"}
    assert measure.in_turns(sides, repeats=2) == {"a": [None, None], "b": [None, None]}
    assert calls == ["a", "b", "a", "b"]


def test_the_peak_is_of_what_follows() -> None:
    measure.forget_peak(CPU)
    before = measure.peak_memory_bytes(CPU)
    large = torch.ones(2**26, dtype=torch.uint8)
    assert measure.peak_memory_bytes(CPU) >= before + 2**25
    del large
    give_freed_memory_back()  # an earlier test may have told torch to keep it
    measure.forget_peak(CPU)
    assert measure.peak_memory_bytes(CPU) < before + 2**25


def test_a_report_tells_where_it_was_measured(tmp_path: Path) -> None:
    path = measure.write_report("speed", CPU, [{"case": "x", "s": 0.12345}], results=tmp_path)
    report = json.loads(path.read_text())
    assert report["rows"] == [{"case": "x", "s": 0.12345}]
    assert report["surroundings"]["torch_version"] == torch.__version__
    assert report["surroundings"]["threads"] >= 1
    assert measure.markdown_table(report["rows"]) == "| case | s |\n| --- | --- |\n| x | 0.123 |"


def test_parts_of_a_measurement_are_put_together(tmp_path: Path) -> None:
    rows = [{"case": "x", "side": side, "s": 1.0} for side in ("a", "b")]
    again = {"case": "x", "side": "a", "s": 2.0}
    measure.write_report("speed", CPU, rows[:1], results=tmp_path)
    measure.write_report("speed", CPU, rows[1:], results=tmp_path)
    path = measure.write_report("speed", CPU, [again], results=tmp_path)
    other = json.loads(path.read_text())
    assert other["rows"] == [rows[1], again]
    other["surroundings"]["commit"] = "another"
    path.write_text(json.dumps(other))
    assert json.loads(measure.write_report("speed", CPU, [again], results=tmp_path).read_text())["rows"] == [again]


def make_work(case: Case, side: str, device: torch.device) -> measure.Work:
    if side == "large":
        raise torch.OutOfMemoryError(f"{device} has no room for {case.name}")
    return lambda: None


def compared(*sides: str, device: str = "cpu") -> list[tuple[str, float | None]]:
    levels: dict[str, OptLevel] = dict.fromkeys(sides, "O0")
    rows = measure.compare(Case("x", 32, 32), levels, make_work, torch.device(device), repeats=2)
    return [(row["side"], row["times as fast"]) for row in rows]


def test_a_side_that_fails_is_an_error_or_left_out_where_it_does_not_fit_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "ProcessPoolExecutor", lambda n, _: ThreadPoolExecutor(n))
    monkeypatch.setattr(measure, "prepare", lambda _, make, __: len([make()]))
    monkeypatch.setattr(measure, "turn", lambda side, _: {"1": 1.0, "2": 2.0}[side])
    monkeypatch.setattr(measure, "peak_memory_bytes", lambda _: 2**31)
    monkeypatch.setattr(measure, "forget_peak", lambda _: None)
    assert compared("1", "2") == [("1", 1.0), ("2", 0.5)]
    with pytest.raises(torch.OutOfMemoryError):
        compared("1", "large")
    assert compared("1", "large", "2", device="cuda") == [("1", 1.0), ("2", 0.5)]
    assert compared("large", "2", device="cuda") == [("2", None)]
    assert "large: OutOfMemoryError: cuda has no room for x" in capsys.readouterr().out


@pytest.mark.slow
def test_each_side_has_a_process_of_its_own() -> None:
    timed = measure.time_processes(
        {str(n): partial(make_work, Case("x", 32, 32), str(n), CPU) for n in range(2)}, CPU, repeats=3
    )
    assert all(len(of_side.seconds) == 3 and of_side.peak_gib >= 0 for of_side in timed.values())


@pytest.mark.parametrize(("seconds", "n_calls"), [(0.1, 1 + 1 + 5), (0.4, 1 + 1)])
def test_a_turn_is_the_mean_of_as_many_calls_as_take_half_a_second(
    monkeypatch: pytest.MonkeyPatch, seconds: float, n_calls: int
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(measure.time, "perf_counter", lambda: seconds * len(calls))
    measure.prepare("side", lambda: lambda: calls.append(1), CPU)
    assert measure.turn("side", CPU) == pytest.approx(seconds)
    assert len(calls) == n_calls


def test_sides_are_compared_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = {"reference": measure.Timed([4.0, 40.0, 4.0], 2.0), "ours": measure.Timed([1.0, 10.0, 2.0], 3.0)}
    monkeypatch.setattr(measure, "time_processes", lambda *_: timed)
    levels: dict[str, OptLevel] = {"reference": "O0", "ours": "O0"}
    reference, ours = measure.compare(Case("x", 32, 32, batch_size=8), levels, make_work, CPU, repeats=3)
    expected = {"case": "x", "side": "ours", "dtype": "float32", "s": 2.0, "images/s": 4.0, "times as fast": 4.0}
    assert ours == expected | {"n": 3, "spread": 4.5, "peak GiB": 3.0, "memory ratio": 1.5}
    assert reference["times as fast"] == reference["memory ratio"] == 1.0
