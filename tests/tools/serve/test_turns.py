"""Turns: items of one kind that wait are computed together, in the order in which they came."""

import asyncio
from collections.abc import Sequence
from functools import partial

import torch

from tools.serve.turns import Turns
from utils.worker_threads import worker_threads


def computed(kinds: str, *, cancel: int | None = None, n_pixels: int = 1, most_pixels: int = 2**24) -> list[list[int]]:
    """Return the batches of items of some kinds that all wait, by their numbers, in turns of three."""
    batches, begun = list[list[int]](), list[int]()

    def compute(items: Sequence[int]) -> list[int]:
        assert begun[-len(items) :] == items
        batches.append(list(items))
        return [-item for item in items]

    async def main() -> list[int | BaseException]:
        turns = Turns(compute, 3, most_pixels)
        works = [turns.computed(n, kind, n_pixels, partial(begun.append, n)) for n, kind in enumerate(kinds)]
        tasks = [asyncio.create_task(work) for work in works]
        await asyncio.sleep(0)  # all wait
        if cancel is not None:
            tasks[cancel].cancel()  # its client is gone
        results = await asyncio.gather(*tasks, return_exceptions=True)
        turns.close()
        return results

    results = asyncio.run(main())
    assert all(result == -n for n, result in enumerate(results) if n != cancel)
    return batches


def test_items_of_one_kind_are_computed_together() -> None:
    assert computed("abababab", cancel=2) == [[0, 4, 6], [1, 3, 5], [7]]


def test_a_batch_has_a_largest_number_of_pixels() -> None:
    assert computed("aaa", n_pixels=100, most_pixels=299) == [[0, 1], [2]]
    assert computed("aa", n_pixels=100, most_pixels=99) == [[0], [1]]


def test_items_that_fail_together_are_computed_one_by_one() -> None:
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


def test_it_computes_with_all_threads_of_torch_although_worker_threads_have_one() -> None:
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
