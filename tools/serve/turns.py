"""One thread that computes for all requests: what waits for it and is of one kind, together."""

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from starlette.exceptions import HTTPException

from utils.log import logger

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class _Turn(Generic[_Item, _Result]):
    kind: Hashable
    compute: Callable[[Sequence[_Item]], Sequence[_Result]]
    item: _Item
    result: Future[_Result] = field(default_factory=Future)


class Turns:
    """Computes in the order of arrival; one thread, because each that computes gets a pool of threads from torch.

    stopped: the text for those who come when it has stopped.
    most_together: of those of one kind. Nothing waits for company: while one is computed, others come.
    """

    def __init__(self, stopped: str, most_together: int = 1) -> None:
        self._stopped, self._most = stopped, most_together
        self._waiting: list[_Turn[Any, Any]] = []
        self._changed = threading.Condition()
        self.is_stopped = False
        self._is_computing = False
        self._thread = threading.Thread(target=self._run, name="translator")

    def start(self) -> None:
        """Begin to compute."""
        self._thread.start()

    def submit(
        self, kind: Hashable, compute: Callable[[Sequence[_Item]], Sequence[_Result]], item: _Item
    ) -> Future[_Result]:
        """Return the result of an item, computed with others of its kind that wait; cancelled, it is left out.

        Raises:
            HTTPException: it has stopped. The result may raise that too.
        """
        turn = _Turn(kind, compute, item)
        with self._changed:
            if self.is_stopped:
                raise self._refusal()
            self._waiting.append(turn)
            self._changed.notify()
        return turn.result

    def stop(self) -> None:
        """Refuse what waits; what is computed is waited for."""
        with self._changed:
            self.is_stopped = True
            for turn in self._waiting:
                if turn.result.set_running_or_notify_cancel():
                    turn.result.set_exception(self._refusal())
            self._waiting = []
            self._changed.notify()
            if self._is_computing:
                logger.info("stopping after this translation; Ctrl-C again stops at once")
        if self._thread.is_alive():
            self._thread.join()

    def _refusal(self) -> HTTPException:
        return HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, self._stopped)

    def _run(self) -> None:
        while turns := self._next():
            _compute(turns)

    def _next(self) -> list[_Turn[Any, Any]]:
        """Return the turns to compute together, once there are any; none after the stop."""
        with self._changed:
            self._is_computing = False
            while not self.is_stopped:
                if self._changed.wait_for(lambda: self._waiting or self.is_stopped) and self._waiting:
                    kind = self._waiting[0].kind
                    chosen = [turn for turn in self._waiting if turn.kind == kind][: self._most]
                    self._waiting = [turn for turn in self._waiting if turn not in chosen]
                    if turns := [turn for turn in chosen if turn.result.set_running_or_notify_cancel()]:
                        self._is_computing = True
                        return turns
            return []


def _compute(turns: Sequence[_Turn[Any, Any]]) -> None:
    """Compute turns together, or each alone where that fails: one may be at fault, or all together too large."""
    try:
        results = turns[0].compute([turn.item for turn in turns])
    except Exception as error:  # noqa: BLE001 - it is raised where the result is waited for
        if len(turns) == 1:
            turns[0].result.set_exception(error)
        else:
            for turn in turns:
                _compute([turn])
        return
    for turn, result in zip(turns, results, strict=True):
        turn.result.set_result(result)
