"""One thread that computes for all requests: what waits for it and is of one kind, together."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import torch
from starlette.exceptions import HTTPException

from utils.log import logger

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class _Turn(Generic[_Item, _Result]):
    kind: Hashable
    compute: Callable[[Sequence[_Item]], Sequence[_Result]]
    item: _Item
    result: asyncio.Future[_Result]


class Turns:
    """Computes in the order of arrival; one thread, because each that computes gets a pool of threads from torch.

    stopped: the text for those who come when it has stopped.
    most_together: of those of one kind. Nothing waits for company: while one is computed, others come.
    """

    def __init__(self, stopped: str, most_together: int = 1) -> None:
        self._refusal, self._most = HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, stopped), most_together
        self._waiting: list[_Turn[Any, Any]] = []
        n_threads = torch.get_num_threads()  # the thread would begin with the 1 that a worker thread has set for itself
        self._thread = ThreadPoolExecutor(1, "translator", torch.set_num_threads, (n_threads,))
        self._computing: asyncio.Task[None] | None = None
        self.is_stopped = False

    async def computed(
        self, kind: Hashable, compute: Callable[[Sequence[_Item]], Sequence[_Result]], item: _Item
    ) -> _Result:
        """Return the result of an item, computed with others of its kind that wait; cancelled, it is left out.

        Raises:
            HTTPException: it has stopped.
        """
        if self.is_stopped:
            raise self._refusal
        turn = _Turn(kind, compute, item, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        if self._computing is None:
            self._computing = asyncio.create_task(self._compute_all())
        return await turn.result

    async def stop(self) -> None:
        """Refuse what waits and what comes; what is computed is waited for."""
        self.is_stopped = True
        for turn in self._waiting:
            if not turn.result.done():
                turn.result.set_exception(self._refusal)
        if self._computing is not None:
            logger.info("stopping after this translation; Ctrl-C again stops at once")
            await self._computing
        self._thread.shutdown()

    async def _compute_all(self) -> None:
        while waiting := [turn for turn in self._waiting if not turn.result.done()]:
            alike = [turn for turn in waiting if turn.kind == waiting[0].kind][: self._most]
            self._waiting = [turn for turn in waiting if turn not in alike]
            await self._compute(alike)
        self._computing = None

    async def _compute(self, turns: Sequence[_Turn[Any, Any]]) -> None:
        """Compute turns together, or each alone where that fails: one may be at fault, or all together too large."""
        items = [turn.item for turn in turns]
        try:
            results = await asyncio.get_running_loop().run_in_executor(self._thread, turns[0].compute, items)
        except Exception as error:  # noqa: BLE001 - it is raised where the result is waited for
            if len(turns) > 1:
                for turn in turns:
                    await self._compute([turn])
            elif not turns[0].result.done():
                turns[0].result.set_exception(error)
            return
        for turn, result in zip(turns, results, strict=True):
            if not turn.result.done():  # its client may have gone
                turn.result.set_result(result)
