"""Turns: what waits and is of one kind is computed together."""

import threading
from collections.abc import Iterator, Sequence

import pytest
from starlette.exceptions import HTTPException

from tools.serve.turns import Turns


@pytest.fixture
def turns() -> Iterator[Turns]:
    """Turns that compute what waits for them when they start."""
    own = Turns("stopped", most_together=3)
    yield own
    own.stop()


def test_those_of_one_kind_are_computed_together(turns: Turns) -> None:
    computed: list[list[int]] = []

    def compute(items: Sequence[int]) -> list[int]:
        computed.append(list(items))
        return [-item for item in items]

    results = [turns.submit(number % 2, compute, number) for number in range(8)]
    assert results[2].cancel()  # as of a client that is gone
    turns.start()
    assert [result.result(60) for number, result in enumerate(results) if number != 2] == [0, -1, -3, -4, -5, -6, -7]
    assert computed == [[0, 4], [1, 3, 5], [6], [7]]


def test_what_fails_together_is_computed_alone(turns: Turns) -> None:
    def compute(items: Sequence[int]) -> Sequence[int]:
        if 1 in items or len(items) == 3:
            raise MemoryError
        return items

    results = [turns.submit(None, compute, number) for number in range(3)]
    turns.start()
    assert (results[0].result(60), results[2].result(60)) == (0, 2)
    assert isinstance(results[1].exception(60), MemoryError)


def test_a_stop_waits_for_what_is_computed_and_refuses_the_rest(turns: Turns) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def compute(items: Sequence[int]) -> Sequence[int]:
        begun.set()
        may_end.wait(60)
        return items

    turns.start()
    first = turns.submit(1, compute, 1)
    begun.wait(60)
    second = turns.submit(2, compute, 2)
    threading.Timer(0.05, may_end.set).start()
    turns.stop()
    assert first.result(0) == 1
    assert isinstance(second.exception(0), HTTPException)
    with pytest.raises(HTTPException, match="stopped"):
        turns.submit(3, compute, 3)
