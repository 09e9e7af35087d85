"""The queue translates waiting jobs of one kind together, in their order."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any
from unittest.mock import Mock

import torch

from data.batch import Sample
from tools.serve.translation import Job, TranslationQueue
from utils.worker_threads import worker_threads


def job(number: int, translator: Any, kind: str = "a", side: int = 1, **others: Any) -> Job:
    return Job(translator, Sample(str(number), source=torch.zeros(1, side, side)), seed=ord(kind), **others)


def translated(kinds: str, *, cancel: int | None = None, side: int = 1, max_pixels: int = 2**24) -> list[list[int]]:
    """Return the batches of some jobs that all wait, by their numbers. A batch has up to three."""
    batches, begun = list[list[int]](), list[int]()

    def translate(jobs: Sequence[Job]) -> list[str]:
        batches.append([int(job.sample.name) for job in jobs])
        assert begun[-len(jobs) :] == batches[-1]
        return [job.sample.name for job in jobs]

    async def main() -> list[Any]:
        queue, translator = TranslationQueue(max_pixels), Mock(translate=translate, batch_size=3)
        jobs = [job(n, translator, kind, side, begin=partial(begun.append, n)) for n, kind in enumerate(kinds)]
        tasks = [asyncio.create_task(queue.translate(job)) for job in jobs]
        await asyncio.sleep(0)  # all wait
        if cancel is not None:
            tasks[cancel].cancel()  # its client is gone
        results = await asyncio.gather(*tasks, return_exceptions=True)
        queue.close()
        return results

    results = asyncio.run(main())
    assert all(result == str(n) for n, result in enumerate(results) if n != cancel)
    return batches


def test_jobs_of_one_kind_are_translated_together() -> None:
    assert translated("abababab", cancel=2) == [[0, 4, 6], [1, 3, 5], [7]]


def test_a_batch_has_a_largest_number_of_pixels() -> None:
    assert translated("aaa", side=10, max_pixels=299) == [[0, 1], [2]]
    assert translated("aa", side=10, max_pixels=99) == [[0], [1]]


def test_jobs_that_fail_together_are_translated_one_by_one() -> None:
    def translate(jobs: Sequence[Job]) -> list[str]:
        if len(jobs) == 3 or jobs[0].sample.name == "1":
            raise MemoryError
        return [job.sample.name for job in jobs]

    async def main() -> list[Any]:
        queue, translator = TranslationQueue(2**24), Mock(translate=translate, batch_size=3)
        return await asyncio.gather(
            *(queue.translate(job(number, translator)) for number in range(3)), return_exceptions=True
        )

    first, second, third = asyncio.run(main())
    assert (first, type(second), third) == ("0", MemoryError, "2")


def test_the_queue_uses_all_threads_of_torch_although_worker_threads_have_one() -> None:
    async def main() -> Any:
        queue = TranslationQueue(2**24)
        translator = Mock(translate=lambda jobs: [torch.get_num_threads() for _ in jobs], batch_size=1)
        with worker_threads(1) as files:
            assert files.submit(torch.get_num_threads).result() == 1
            n_threads = await queue.translate(job(0, translator))
        queue.close()
        return n_threads

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert asyncio.run(main()) == 3
    finally:
        torch.set_num_threads(before)
