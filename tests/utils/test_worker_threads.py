"""Calls in threads: in order, few at a time, and none begun after an error."""

import time
from concurrent.futures import Future

import pytest
import torch

from utils.worker_threads import in_order, worker_threads


def test_an_error_leaves_the_others_and_an_interruption_what_has_not_begun() -> None:
    with worker_threads() as pool:
        calls = list(in_order(pool, lambda number: 1 / number, [1, 0, 2], 3))
        assert isinstance(calls[1].exception(), ZeroDivisionError)
        assert calls[2].result() == 0.5
    sleeps: list[Future[None]] = []

    def interrupted() -> None:
        with worker_threads() as pool:
            sleeps.extend(pool.submit(time.sleep, 0.02) for _ in range(50))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert all(sleep.done() for sleep in sleeps)
    assert sleeps[-1].cancelled()


def test_torch_has_one_thread_in_each_and_as_before_in_the_main_one() -> None:
    before = torch.get_num_threads()
    with worker_threads() as pool:
        assert pool.submit(torch.get_num_threads).result() == 1
    assert torch.get_num_threads() == before
