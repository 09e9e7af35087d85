"""One process or many: a plain `python` run is a world of one, so nothing else asks."""

import gc
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from utils.errors import UserError
from utils.rendezvous import fresh_store

_SIGNS_OF_A_LOST_PEER = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Timed out waiting",
    "Connection refused",
)


@dataclass(frozen=True)
class World:
    """This process among those that torchrun started: rank in 0 .. size-1, and the device that is its own."""

    rank: int
    size: int
    device: torch.device
    local_size: int = 1
    """Processes on this machine."""
    control: Any = None
    """A process group of all, for what their CPUs tell each other; None is torch's own."""

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def wrap(self, module: nn.Module) -> nn.Module:
        """`module` on this process's device, averaging gradients over the processes in its backward passes."""
        if self.size == 1:
            return module
        is_cuda = self.device.type == "cuda"
        if is_cuda:  # plain batch norm between two forwards and a backward fails there; the CPU has no other
            module = nn.SyncBatchNorm.convert_sync_batchnorm(module)
        return DistributedDataParallel(
            module, device_ids=[self.device] if is_cuda else None, gradient_as_bucket_view=True
        )

    def mean(self, values: Tensor) -> Tensor:
        """The mean of `values` over the processes, on each of them."""
        if self.size > 1:
            dist.all_reduce(values)
            values /= self.size
        return values

    def all_reduce_max(self, value: int) -> int:
        """The largest `value` of all processes, on each of them; the devices are not waited for."""
        if self.size == 1:
            return value
        largest = torch.tensor(value)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=self.control)
        return int(largest)

    def gather(self, value: Any) -> list[Any]:
        """`value` of every process, by rank, on each of them."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """The others enter once the main process has left: it downloads, they read what it fetched."""
        if not self.is_main:
            self.barrier()
        yield
        if self.is_main:
            self.barrier()

    def barrier(self) -> None:
        """Wait until every process is here."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def joined_world(device: str, timeout_s: float) -> Iterator[World]:
    """Join the processes that torchrun started, if it did; gloo on CPUs, NCCL on GPUs.

    device: "auto", "cpu" or "cuda". timeout_s: how long a process waits for the others.

    Raises:
        DeviceError: there is no GPU for this process.
        PeerLostError: another process ended in the middle of the work, or was waited for too long.
    """
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    chosen = choose_device(device, index=int(os.environ.get("LOCAL_RANK", "0")))
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    if size == 1:
        yield World(rank, size, chosen)
        return
    timeout = timedelta(seconds=timeout_s)
    try:
        store, rank, size = fresh_store(timeout)
        dist.init_process_group(
            "nccl" if chosen.type == "cuda" else "gloo",
            store=store,
            rank=rank,
            world_size=size,
            timeout=timeout,
            device_id=chosen if chosen.type == "cuda" else None,
        )
        control = dist.new_group(backend="gloo", timeout=timeout) if chosen.type == "cuda" else None
        yield World(rank, size, chosen, int(os.environ.get("LOCAL_WORLD_SIZE", size)), control)
    except RuntimeError as error:
        if any(sign in str(error) for sign in _SIGNS_OF_A_LOST_PEER):
            raise PeerLostError(
                f"process {rank}: another process of this run has ended, or stands still; its message says why"
            ) from error
        raise
    finally:
        if dist.is_initialized():
            _free_networks()
            dist.destroy_process_group()


def _free_networks() -> None:
    """Free what was made within the world and would keep its process group, and so the group's threads, alive.

    A thread of gloo that frees its last tensor only when the interpreter ends aborts the process (SIGABRT from
    pthread_exit within a destructor; torch 2.15, Python 3.11), and with it a run that was finished. Where a peer was
    lost, whose error is the cause of another here, all is left: threads may wait for the peer for long.
    """
    if error := sys.exception():
        traceback.clear_frames(error.__traceback__)
    gc.collect()


class PeerLostError(UserError):
    """Another process has ended, so this one cannot go on."""


class DeviceError(UserError):
    """The device that the user chose is not there."""


def choose_device(device: str, index: int = 0) -> torch.device:
    """The device of "auto", "cpu" or "cuda"; `index` among the GPUs of this machine.

    Raises:
        DeviceError: cuda was asked for, and GPU `index` is not there.
    """
    n_gpus = torch.cuda.device_count()
    if device == "cpu" or (device == "auto" and n_gpus == 0):
        return torch.device("cpu")
    if index >= n_gpus:
        raise DeviceError(f"GPU {index} was asked for, this machine has {n_gpus}: use device cpu or fewer processes")
    return torch.device("cuda", index)


def synchronized(network: nn.Module, is_last: bool) -> AbstractContextManager[None]:
    """Context of a forward and backward pass: gradients are averaged over the processes only in the last of a step."""
    if is_last or not isinstance(network, DistributedDataParallel):
        return nullcontext()
    return network.no_sync()
