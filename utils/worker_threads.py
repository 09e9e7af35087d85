"""Threads for work that releases the interpreter lock, such as Pillow and torch."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
MOST_THREADS = 4  # each one holds an image


@contextmanager
def worker_threads(n_threads: int | None = None) -> Iterator[Executor]:
    """Provide threads. At the end, also after an error or Ctrl-C, complete calls that have begun and drop the others.

    n_threads: Number of threads; default: the number of torch's threads, at most MOST_THREADS.
    """
    n_threads = n_threads or min(MOST_THREADS, torch.get_num_threads())
    pool = ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def in_order(
    pool: Executor, call: Callable[[_Item], _Result], items: Iterable[_Item], most: int
) -> Iterator[Future[_Result]]:
    """Yield the calls of some items in their order. At most `most` calls are under way."""
    waiting: deque[Future[_Result]] = deque()
    for item in items:
        waiting.append(pool.submit(call, item))
        if len(waiting) >= most:
            yield waiting.popleft()
    yield from waiting
