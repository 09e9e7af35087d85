import pytest

import training.throughput
from training.throughput import Throughput


def test_speed_and_waiting_are_those_of_the_lap(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(training.throughput.time, "perf_counter", lambda: now_s)
    throughput = Throughput()
    throughput.start(10)
    with throughput.waiting():
        now_s = 3.0
    now_s = 4.0
    first = throughput.lap(18)
    assert (first.steps_per_s, first.waiting_share) == (2.0, 0.75)
    now_s = 5.0
    second = throughput.lap(19)
    assert (second.steps_per_s, second.waiting_share) == (1.0, 0.0)
