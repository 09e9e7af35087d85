"""Turns: what waits and is of one kind is computed together."""

import asyncio
import math
import threading
from collections.abc import Sequence

import pytest
import torch

from tools.serve import turns as module
from tools.serve.turns import Turns
from utils.worker_threads import worker_threads


def test_those_of_one_kind_are_computed_together() -> None:
    computed: list[list[int]] = []

    def compute(items: Sequence[int]) -> list[int]:
        computed.append(list(items))
        return [-item for item in items]

    async def main() -> list[int]:
        turns = Turns(compute, most_together=3)
        tasks = [asyncio.create_task(turns.computed(number, number % 2)) for number in range(8)]
        await asyncio.sleep(0)  # all wait
        tasks[2].cancel()  # as of a client that is gone
        results = await asyncio.gather(*tasks[:2], *tasks[3:])
        turns.close()
        return results

    assert asyncio.run(main()) == [0, -1, -3, -4, -5, -6, -7]
    assert computed == [[0, 4, 6], [1, 3, 5], [7]]


def test_what_fails_together_is_computed_alone() -> None:
    def compute(items: Sequence[int]) -> Sequence[int]:
        if 1 in items or len(items) == 3:
            raise MemoryError
        return items

    async def main() -> list[int | BaseException]:
        turns = Turns(compute, most_together=3)
        works = (turns.computed(number) for number in range(3))
        return await asyncio.gather(*works, return_exceptions=True)

    first, second, third = asyncio.run(main())
    assert (first, type(second), third) == (0, MemoryError, 2)


Item = tuple[str, int, float]  # its kind, pixels and deadline
LARGE = 2**20


def computed(first: Item, *items: Item, most_pixels: int = 2**24) -> tuple[list[list[Item]], list[Item]]:
    """Return what is computed together, and what is refused, where items come while the first is computed.

    A large image takes 2 s, so that 2.5 are expected; the smallest takes 0.1 s.
    """
    batches, seconds, may_end = list[list[Item]](), 0.0, threading.Event()

    def compute(together: Sequence[Item]) -> Sequence[Item]:
        nonlocal seconds
        may_end.wait(60)
        seconds += sum(max(0.1, 2 * n_pixels / LARGE) for _, n_pixels, _ in together)
        batches.append(list(together))
        return together

    async def main() -> list[Item | BaseException]:
        asyncio.get_running_loop().time = lambda: seconds  # type: ignore[method-assign]
        turns = Turns(compute, 8, most_pixels)
        works = []
        for item in (first, *items):
            works.append(asyncio.create_task(turns.computed(item, *item)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # the first is computed
        may_end.set()
        return await asyncio.gather(*works, return_exceptions=True)

    results = asyncio.run(main())
    refused = [item for item, result in zip((first, *items), results, strict=True) if isinstance(result, TimeoutError)]
    return batches, refused


def test_nothing_is_begun_that_cannot_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_MEASURED", 1)
    first, in_time, too_late = ("a", LARGE, 8.0), ("a", LARGE, 8.0), ("a", LARGE, 4.0)
    assert computed(first, too_late, *[in_time] * 4) == ([[first], [in_time] * 2], [too_late, in_time, in_time])
    other = ("b", LARGE, 5.0)
    assert computed(first, in_time, other) == ([[first], [other], [in_time]], [])
    soon, later = ("a", LARGE, 5.0), ("a", LARGE, 9.0)  # together they would end at 6 s
    assert computed(first, later, soon) == ([[first], [soon], [later]], [])


def test_a_slow_first_computation_refuses_nothing() -> None:
    """It may begin with what the others find ready."""
    seconds = 0.0

    def compute(items: Sequence[int]) -> Sequence[int]:
        nonlocal seconds
        seconds += 1 if seconds else 100
        return items

    async def main() -> list[int]:
        asyncio.get_running_loop().time = lambda: seconds  # type: ignore[method-assign]
        turns = Turns(compute)
        return await asyncio.gather(*(turns.computed(item, "", LARGE, deadline=120.0) for item in range(9)))

    assert asyncio.run(main()) == [*range(9)]


def test_the_first_after_a_pause_is_begun_however_long_the_last_took() -> None:
    seconds = 0

    def compute(items: Sequence[int]) -> Sequence[int]:
        nonlocal seconds
        seconds += 100
        return items

    async def main() -> int:
        asyncio.get_running_loop().time = lambda: seconds  # type: ignore[method-assign]
        turns = Turns(compute)
        await turns.computed(1, "", LARGE)
        return await turns.computed(2, "", LARGE, deadline=101.0)

    assert asyncio.run(main()) == 2


def test_a_slow_small_image_does_not_refuse_large_ones() -> None:
    small, large = ("a", 1, 8.0), ("b", LARGE, 8.0)
    assert computed(small, large) == ([[small], [large]], [])


def test_a_batch_holds_only_so_many_pixels() -> None:
    one = ("a", 100, math.inf)
    assert computed(one, *[one] * 7, most_pixels=399)[0] == [[one], [one] * 3, [one] * 3, [one]]
    assert computed(one, one, most_pixels=99)[0] == [[one], [one]]


def test_it_computes_with_all_threads_of_torch_whatever_others_have_set_for_themselves() -> None:
    async def main() -> int:
        turns = Turns[None, int](lambda items: [torch.get_num_threads() for _ in items])
        with worker_threads(1) as files:
            assert files.submit(torch.get_num_threads).result() == 1
            n_threads = await turns.computed(None)
        turns.close()
        return n_threads

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert asyncio.run(main()) == 3
    finally:
        torch.set_num_threads(before)
