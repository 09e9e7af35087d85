"""How the processes of a run find each other, also after a restart."""

import time
from datetime import timedelta
from uuid import uuid4

import torch.distributed as dist

_POLL_S = 0.02


def fresh_store(timeout: timedelta) -> tuple[dist.Store, int, int]:
    """Return a store that only this start of the processes shares, the rank and the number of processes.

    torchrun's own store outlives a restart (torch 2.15) and still has addresses of processes that have ended. So the
    first process draws a prefix, and hands it to every other process that asks with a random word of its own.

    Raises:
        RuntimeError: another process does not ask within `timeout`.
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
            if store.check([f"asks/{rank}"]):  # perhaps the word of a process that has ended: checked again below
                store.set(f"prefix/{store.get(f'asks/{rank}').decode()}", prefix)
        waiting = {rank for rank in waiting if not store.check([f"{prefix}/has/{rank}"])}
        if waiting and time.monotonic() > deadline:
            raise RuntimeError(f"Timed out waiting for processes {', '.join(map(str, sorted(waiting)))}")
        time.sleep(_POLL_S if waiting else 0)
    return prefix
