"""Threads that work beside the main one: Pillow and torch leave the interpreter to others meanwhile."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
MOST_THREADS = 4  # each holds an image in the memory


@contextmanager
def worker_threads(n_threads: int | None = None) -> Iterator[Executor]:
    """Provide threads, in each of which torch computes with one.

    n_threads: None provides as many as torch has for its operators, at most MOST_THREADS.

    At the end, also after an error or Ctrl-C, what has not begun is left out, and what has is completed.
    """
    n_threads = n_threads or min(MOST_THREADS, torch.get_num_threads())
    pool = ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,))  # the main thread keeps its
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def in_order(
    pool: Executor, call: Callable[[_Item], _Result], items: Iterable[_Item], most: int
) -> Iterator[Future[_Result]]:
    """Yield the calls of some items in their order, of which up to `most` are under way."""
    waiting: deque[Future[_Result]] = deque()
    for item in items:
        waiting.append(pool.submit(call, item))
        if len(waiting) >= most:
            yield waiting.popleft()
    yield from waiting
