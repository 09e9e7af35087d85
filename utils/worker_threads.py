"""Threads for libraries that release the interpreter lock, such as Pillow and torch."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
MOST_THREADS = 4  # limits the memory, because each thread holds an image


@contextmanager
def worker_threads(n_threads: int | None = None) -> Iterator[Executor]:
    """Yield a thread pool. On exit, even after an error or Ctrl-C, finish calls that have begun and cancel all others.

    n_threads: Number of threads. None: the number of torch's threads, at most MOST_THREADS.
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
    """Call a function with each item in a thread pool, and yield the futures in order. most: Limit of pending calls."""
    waiting: deque[Future[_Result]] = deque()
    for item in items:
        waiting.append(pool.submit(call, item))
        if len(waiting) >= most:
            yield waiting.popleft()
    yield from waiting
