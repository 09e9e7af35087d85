import pytest

from bench.cases import Case
from bench.scaling import rows_of


def test_processes_are_compared_by_turns() -> None:
    turns = {1: [{"s": 1.0}, {"s": 10.0}], 2: [{"s": 1.0}, {"s": 8.0}]}
    one, two = rows_of(Case("x", 32, 32, batch_size=3), turns)
    assert two == pytest.approx({"case": "x", "processes": 2, "images/s": 3.375, "against one": 2.25, "s": 4.5})
    assert one["against one"] == 1.0
