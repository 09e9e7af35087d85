import io
import sys

import pytest
import torch

from bench import measure as processes
from bench.measure import Work, serve, time_against_first, time_processes

CPU = torch.device("cpu")
SIDE = "import sys; input(); print('ready', flush=True)\nfor line in sys.stdin: print({seconds}, flush=True)\nprint(7)"


def commands(*seconds: str) -> dict[str, list[str]]:
    return {name: [sys.executable, "-c", SIDE.format(seconds=name)] for name in seconds}


def test_processes_answer_each_call_and_say_a_last_word() -> None:
    timed = time_processes(commands("1", "2"), repeats=2)
    assert timed["1"].seconds == [1, 1]
    assert timed["2"].seconds == [2, 2]
    assert timed["1"].answer == 7


def test_a_process_that_ends_is_told() -> None:
    broken = {"broken": [sys.executable, "-c", "raise SystemExit(3)"]}
    with pytest.raises(RuntimeError, match="ended with code 3"):
        time_processes(commands("1") | broken, repeats=1)


def test_each_side_comes_with_the_first() -> None:
    found = [
        (name, mine.seconds, first.seconds) for name, mine, first in time_against_first(commands("1", "2"), CPU, 1)
    ]
    assert found == [("1", [1], [1]), ("2", [2], [1])]


def test_a_side_that_does_not_fit_a_gpu_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    broken = {"large": [sys.executable, "-c", "raise SystemExit(3)"]}
    found = [name for name, *_ in time_against_first(commands("1") | broken, torch.device("cuda"), 1)]
    assert found == ["1"]
    assert "large: a measuring process ended with code 3" in capsys.readouterr().out


def test_a_side_answers_every_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[int] = []
    monkeypatch.setattr(processes, "TURN_S", 0)
    monkeypatch.setattr(sys, "stdin", io.StringIO("begin\ngo\ngo\n"))
    serve(lambda: lambda: calls.append(1), CPU, warm_up=2)
    ready, *seconds, peak_gib = capsys.readouterr().out.split()
    assert len(calls) == 4
    assert ready == "ready"
    assert all(0 <= float(answer) < 1 for answer in seconds)
    assert len(seconds) == 2
    float(peak_gib)


def test_a_turn_of_short_calls_is_the_mean_of_many(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[int] = []

    def time_by_count(sides: dict[str, Work], *_: object, **__: object) -> dict[str, list[float]]:
        n_before = len(calls)
        sides[""]()
        return {"": [0.1 * (len(calls) - n_before)]}  # each takes 0.1 s

    monkeypatch.setattr(processes, "time_alternating", time_by_count)
    monkeypatch.setattr(sys, "stdin", io.StringIO("begin\ngo\n"))
    serve(lambda: lambda: calls.append(1), CPU, warm_up=0)
    assert len(calls) == 1 + 5
    assert float(capsys.readouterr().out.split()[1]) == pytest.approx(0.1)


def test_a_side_that_is_not_begun_makes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    serve(lambda: pytest.fail("made"), CPU, warm_up=1)
