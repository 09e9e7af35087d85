"""Communication between the processes of a run. Without torchrun, a run has a single process."""

import gc
import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from utils.device import choose_device
from utils.errors import UserError
from utils.torch_private import import_compiler

LONGEST_WAIT_S = 24 * 3600.0  # longest time that a process waits for other processes
_POLL_S = 0.02  # time between two checks of the store
_SIGNS_OF_A_LOST_PEER = (  # texts in RuntimeErrors of gloo, NCCL and the store
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Timed out waiting",
    "Connection refused",
)


class PeerLostError(UserError):
    """Another process of the run has ended or does not answer, so this process cannot continue."""

    is_consequence = True


@dataclass(frozen=True)
class World:
    """The rank of this process among all processes of the run, and its device.

    rank: Number of this process, 0 to size - 1.
    local_size: Number of processes on this machine.
    control: Process group for communication between CPUs. None: torch's default group.
    """

    rank: int
    size: int
    device: torch.device
    local_size: int = 1
    control: Any = None

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def wrap(self, module: nn.Module) -> nn.Module:
        """Wrap `module` in DistributedDataParallel, which averages gradients over the processes in backward passes."""
        if self.size == 1:
            return module
        if self.device.type != "cuda":
            return DistributedDataParallel(module, gradient_as_bucket_view=True)
        # under DDP, plain batch norm fails in a backward pass after two forward passes
        module = nn.SyncBatchNorm.convert_sync_batchnorm(module)
        return DistributedDataParallel(module, device_ids=[self.device], gradient_as_bucket_view=True)

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of `values` over all processes, in each process."""
        if self.size > 1:
            dist.all_reduce(values)
            values /= self.size
        return values

    def all_reduce_max(self, value: int) -> int:
        """Return the largest `value` of all processes, in each process, without waiting for the GPUs."""
        if self.size == 1:
            return value
        largest = torch.tensor(value)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=self.control)
        return int(largest)

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all processes by rank, in each process."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """Let the main process run the `with` body first, for example to download files for all processes."""
        if not self.is_main:
            self.barrier()
        yield
        if self.is_main:
            self.barrier()

    def barrier(self) -> None:
        """Wait for every process."""
        if self.size > 1:
            dist.barrier()


def is_of_a_lost_peer(error: BaseException) -> bool:
    """Return whether an error means that another process has ended or does not answer."""
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS_OF_A_LOST_PEER)


@contextmanager
def joined_world(device: str, timeout_s: float, option: str = "run.device=") -> Iterator[World]:
    """Connect the processes that torchrun started, if any, with gloo on CPUs and NCCL on GPUs.

    device: "auto", "cpu" or "cuda".
    timeout_s: Seconds that a process waits for other processes.
    option: Beginning of the command-line option that sets the device. Error messages contain it.

    Raises:
        DeviceError: There is no usable GPU for this process.
        PeerLostError: Another process ended too early, or did not answer within `timeout_s`.
    """
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    chosen = choose_device(device, index=int(os.environ.get("LOCAL_RANK", "0")), option=option)
    is_cuda = chosen.type == "cuda"
    if is_cuda:
        torch.cuda.set_device(chosen)
    if size == 1:
        yield World(rank, size, chosen)
        return
    import_compiler()  # if imported later, it would keep gloo threads alive, and the process would crash at exit
    timeout = timedelta(seconds=timeout_s)
    try:
        store, rank, size = fresh_store(timeout)
        backend, device_id = ("nccl", chosen) if is_cuda else ("gloo", None)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout, device_id=device_id)
        control = dist.new_group(backend="gloo", timeout=timeout) if is_cuda else None
        yield World(rank, size, chosen, int(os.environ.get("LOCAL_WORLD_SIZE", size)), control)
    except RuntimeError as error:
        if is_of_a_lost_peer(error):
            raise PeerLostError(
                f"process {rank}: another process of this run has ended, or does not answer; see that process's message"
            ) from error
        raise
    finally:
        if dist.is_initialized():
            _free_networks()
            dist.destroy_process_group()


def _free_networks() -> None:
    """Free objects that keep gloo threads alive.

    If a gloo thread frees a tensor while the interpreter exits, the process crashes (torch 2.15, Python 3.11).
    """
    if error := sys.exception():
        traceback.clear_frames(error.__traceback__)
    gc.collect()


def fresh_store(timeout: timedelta) -> tuple[dist.Store, int, int]:
    """Return a store for the processes of this launch, the rank of this process, and the number of processes.

    torchrun's store survives a restart (torch 2.15), so it can contain addresses of processes that have ended. Keys of
    the new store therefore begin with a random prefix. Process 0 chooses the prefix and sends it to the others.

    Raise RuntimeError if a process does not request the prefix within `timeout`.
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
            if store.check([f"asks/{rank}"]):  # an ended process may have set it, so wait for {prefix}/has below
                store.set(f"prefix/{store.get(f'asks/{rank}').decode()}", prefix)
        waiting = {rank for rank in waiting if not store.check([f"{prefix}/has/{rank}"])}
        if waiting and time.monotonic() > deadline:
            raise RuntimeError(f"Timed out waiting for processes {', '.join(map(str, sorted(waiting)))}")
        time.sleep(_POLL_S if waiting else 0)
    return prefix
