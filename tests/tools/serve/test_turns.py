"""Turns: what waits and is of one kind is computed together."""

import asyncio
import threading
from collections.abc import Sequence

import pytest
import torch
from starlette.exceptions import HTTPException

from tools.serve.turns import Turns
from utils.worker_threads import worker_threads


def test_those_of_one_kind_are_computed_together() -> None:
    computed: list[list[int]] = []

    def compute(items: Sequence[int]) -> list[int]:
        computed.append(list(items))
        return [-item for item in items]

    async def main() -> list[int]:
        turns = Turns("stopped", most_together=3)
        tasks = [asyncio.create_task(turns.computed(number % 2, compute, number)) for number in range(8)]
        await asyncio.sleep(0)  # all wait
        tasks[2].cancel()  # as of a client that is gone
        results = await asyncio.gather(*tasks[:2], *tasks[3:])
        await turns.stop()
        return results

    assert asyncio.run(main()) == [0, -1, -3, -4, -5, -6, -7]
    assert computed == [[0, 4, 6], [1, 3, 5], [7]]


def test_what_fails_together_is_computed_alone() -> None:
    def compute(items: Sequence[int]) -> Sequence[int]:
        if 1 in items or len(items) == 3:
            raise MemoryError
        return items

    async def main() -> list[int | BaseException]:
        turns = Turns("stopped", most_together=3)
        works = (turns.computed(None, compute, number) for number in range(3))
        return await asyncio.gather(*works, return_exceptions=True)

    first, second, third = asyncio.run(main())
    assert (first, type(second), third) == (0, MemoryError, 2)


def test_a_stop_waits_for_what_is_computed_and_refuses_the_rest() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def compute(items: Sequence[int]) -> Sequence[int]:
        begun.set()
        may_end.wait(60)
        return items

    async def main() -> None:
        turns = Turns("stopped")
        first, second = (asyncio.create_task(turns.computed(None, compute, number)) for number in (1, 2))
        await asyncio.to_thread(begun.wait, 60)
        stopping = asyncio.create_task(turns.stop())
        for refused in (second, turns.computed(None, compute, 3)):
            with pytest.raises(HTTPException, match="stopped"):
                await refused
        assert not stopping.done()
        may_end.set()
        await stopping
        assert first.done()
        assert await first == 1

    asyncio.run(main())


def test_it_computes_with_all_threads_of_torch_whatever_others_have_set_for_themselves() -> None:
    async def main() -> int:
        turns = Turns("stopped")
        with worker_threads(1) as files:
            assert files.submit(torch.get_num_threads).result() == 1
            n_threads = await turns.computed("", lambda items: [torch.get_num_threads() for _ in items], None)
        await turns.stop()
        return n_threads

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert asyncio.run(main()) == 3
    finally:
        torch.set_num_threads(before)
