"""One thread that computes for all requests: what waits for it and is of one kind, together."""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

import torch

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Compute = Callable[[Sequence[_Item]], Sequence[_Result]]
_LEAST_PIXELS = 2**16  # the time of a smaller image hardly depends on its size
LEAST_MEASURED = 2  # computations before any is refused: the first may take many times as long as others
MARGIN = 1.25  # of expected times: those of equal images differ by so much where a machine has other work


@dataclass(frozen=True, eq=False)
class _Turn(Generic[_Item, _Result]):
    item: _Item
    kind: Hashable
    n_pixels: int
    deadline: float
    result: asyncio.Future[_Result]


class Turns(Generic[_Item, _Result]):
    """Computes in the order of deadlines; one thread, because each that computes gets a pool of threads from torch.

    compute: returns the results of items of one kind.
    most_together, most_pixels: Largest batch, in items and in pixels. An item never waits for a batch to fill.
    """

    def __init__(self, compute: _Compute[_Item, _Result], most_together: int = 1, most_pixels: int = 2**24) -> None:
        self._compute = compute
        self._most, self._most_pixels = most_together, most_pixels
        self._waiting, self._seconds_of_pixel = list[_Turn[_Item, _Result]](), deque[float](maxlen=16)
        n_threads = torch.get_num_threads()  # the thread would begin with the 1 that a worker thread has set for itself
        self._thread = ThreadPoolExecutor(1, "translator", torch.set_num_threads, (n_threads,))
        self._computing: asyncio.Task[None] | None = None

    async def computed(self, item: _Item, kind: Hashable = None, n_pixels: int = 1, deadline: float = inf) -> _Result:
        """Return the result of an item, computed with others of its kind that wait; cancelled, it is left out.

        n_pixels: of the item. deadline: in the loop's time.

        Raises:
            TimeoutError: it would not end by its deadline, and was not begun.
        """
        turn = _Turn(item, kind, n_pixels, deadline, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        if self._computing is None:
            self._computing = asyncio.create_task(self._compute_all())
        return await turn.result

    def close(self) -> None:
        """Compute no more. A computation that has begun is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _compute_all(self) -> None:
        while ends := self._expected_ends():
            first = next(iter(ends))
            alike = [turn for turn, end in ends.items() if turn.kind == first.kind and end <= first.deadline]
            together = alike[: min(self._most, self._most_pixels // first.n_pixels)] or [first]
            self._waiting = [turn for turn in ends if turn not in together]
            await self._compute_turns(together)
        self._computing = None
        self._seconds_of_pixel.clear()  # or all after slow ones could be refused for ever

    def _expected_ends(self) -> dict[_Turn[_Item, _Result], float]:
        """Return when what waits would end, one after the other by deadline; refuse what would end too late."""
        ends, now = dict[_Turn[_Item, _Result], float](), asyncio.get_running_loop().time()
        of_pixel = min(self._seconds_of_pixel, default=0.0)  # one may have been slow beside other work
        is_measured = len(self._seconds_of_pixel) >= LEAST_MEASURED
        for turn in sorted(self._waiting, key=lambda turn: turn.deadline):
            end = max(ends.values(), default=now) + max(turn.n_pixels, _LEAST_PIXELS) * of_pixel
            if not turn.result.done() and is_measured and end > turn.deadline:
                turn.result.set_exception(TimeoutError())
            if not turn.result.done():
                ends[turn] = end
        self._waiting = list(ends)
        return ends

    async def _compute_turns(self, turns: Sequence[_Turn[_Item, _Result]]) -> None:
        """Compute turns together, or each alone where that fails: one may be at fault, or all together too large."""
        items, loop = [turn.item for turn in turns], asyncio.get_running_loop()
        began = loop.time()
        try:
            results = await loop.run_in_executor(self._thread, self._compute, items)
        except Exception as error:  # noqa: BLE001 - it is raised where the result is waited for
            if len(turns) > 1:
                for turn in (turn for turn in turns if not turn.result.done()):
                    await self._compute_turns([turn])
            elif not turns[0].result.done():
                turns[0].result.set_exception(error)
            return
        seconds = MARGIN * (loop.time() - began) / len(turns)
        self._seconds_of_pixel.append(seconds / max(turns[0].n_pixels, _LEAST_PIXELS))
        for turn, result in zip(turns, results, strict=True):
            if not turn.result.done():  # its client may have gone
                turn.result.set_result(result)
