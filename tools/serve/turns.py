"""One thread that computes for all requests. Items of one kind that wait are computed together."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class _Turn(Generic[_Item, _Result]):
    item: _Item
    kind: Hashable
    n_pixels: int
    begin: Callable[[], object]
    result: asyncio.Future[_Result]


class Turns(Generic[_Item, _Result]):
    """Computes items in their order. Only one thread computes, because torch gives each its own pool of threads.

    compute: Returns the results of items of one kind.
    most_together, most_pixels: Largest batch, in items and in pixels. An item never waits for a batch to fill.
    """

    def __init__(
        self, compute: Callable[[Sequence[_Item]], Sequence[_Result]], most_together: int = 1, most_pixels: int = 2**24
    ) -> None:
        self._compute, self._most, self._most_pixels = compute, most_together, most_pixels
        self._waiting = list[_Turn[_Item, _Result]]()
        n_threads = torch.get_num_threads()  # otherwise the thread starts with the 1 that a worker thread has set
        self._thread = ThreadPoolExecutor(1, "translator", torch.set_num_threads, (n_threads,))
        self._computing: asyncio.Task[None] | None = None

    async def computed(
        self, item: _Item, kind: Hashable = None, n_pixels: int = 1, begin: Callable[[], object] = lambda: None
    ) -> _Result:
        """Return the result of an item. If the caller is cancelled, an item that waits is left out.

        n_pixels: Number of pixels of the item. begin: Called when the computation of the item begins.
        """
        turn = _Turn(item, kind, n_pixels, begin, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        if self._computing is None:
            self._computing = asyncio.create_task(self._compute_all())
        return await turn.result

    def close(self) -> None:
        """Compute no more. A computation that has begun is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _compute_all(self) -> None:
        while waiting := [turn for turn in self._waiting if not turn.result.done()]:
            first = waiting[0]
            most = max(1, min(self._most, self._most_pixels // first.n_pixels))
            together = [turn for turn in waiting if turn.kind == first.kind][:most]
            self._waiting = [turn for turn in waiting if turn not in together]
            for turn in together:
                turn.begin()
            await self._compute_turns(together)
        self._computing = None

    async def _compute_turns(self, turns: Sequence[_Turn[_Item, _Result]]) -> None:
        """Compute turns together. If that fails, compute them one by one: one may be at fault, or all too large."""
        items, loop = [turn.item for turn in turns], asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self._thread, self._compute, items)
        except Exception as error:  # noqa: BLE001 - it is raised where the result is waited for
            if len(turns) > 1:
                for turn in (turn for turn in turns if not turn.result.done()):
                    await self._compute_turns([turn])
            elif not turns[0].result.done():
                turns[0].result.set_exception(error)
            return
        for turn, result in zip(turns, results, strict=True):
            if not turn.result.done():  # its client may have gone
                turn.result.set_result(result)
