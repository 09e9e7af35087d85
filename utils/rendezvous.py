"""How the processes of a run find each other, after a restart too."""

import time
from datetime import timedelta
from uuid import uuid4

import torch.distributed as dist

_POLL_S = 0.02


def fresh_store(timeout: timedelta) -> tuple[dist.Store, int, int]:
    """A store that this start of the processes shares and no earlier one did; with rank and number of processes.

    torchrun's own store outlives a restart (torch 2.15) and still tells the addresses of processes that are gone. Here
    the first process draws a prefix, and gives it to each of the others that asks with a word drawn by itself.

    Raises:
        RuntimeError: the others are not there within `timeout`.
    """
    store, rank, size = next(dist.rendezvous("env://", timeout=timeout))
    if rank == 0:
        return dist.PrefixStore(_hand_out_prefix(store, size, timeout), store), rank, size
    word = uuid4().hex
    store.set(f"asks/{rank}", word)
    store.wait([f"prefix/{word}"], timeout)
    prefix = store.get(f"prefix/{word}").decode()
    store.set(f"{prefix}/has/{rank}", "yes")
    return dist.PrefixStore(prefix, store), rank, size


def _hand_out_prefix(store: dist.Store, size: int, timeout: timedelta) -> str:
    prefix = uuid4().hex
    deadline = time.monotonic() + timeout.total_seconds()
    waiting = set(range(1, size))
    while waiting:
        for rank in waiting:
            if store.check([f"asks/{rank}"]):  # perhaps a word of a process that is gone: asked for again below
                store.set(f"prefix/{store.get(f'asks/{rank}').decode()}", prefix)
        waiting = {rank for rank in waiting if not store.check([f"{prefix}/has/{rank}"])}
        if waiting and time.monotonic() > deadline:
            raise RuntimeError(f"Timed out waiting for processes {', '.join(map(str, sorted(waiting)))}")
        time.sleep(_POLL_S if waiting else 0)
    return prefix
