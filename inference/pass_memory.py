"""The memory that a pass of a network needs, estimated from a pass of a small part of the image."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from utils.machine import memory_bytes

_COPIES = 1.3  # convolutions on a CPU copy their inputs: 1.2 to 1.6 times the tensors, measured on four generators


class _LiveBytes(TorchDispatchMode):
    """Counts the bytes of the tensors that operations create and that are alive.

    Attributes: most, the largest count so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.most = self._now = 0
        self._storages: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        key = storage.data_ptr()
        if key in self._storages or not storage.nbytes():
            return
        self._storages.add(key)
        self._now += storage.nbytes()
        self.most = max(self.most, self._now)
        weakref.finalize(storage, self._forget, key, storage.nbytes())

    def _forget(self, key: int, n_bytes: int) -> None:
        self._storages.discard(key)
        self._now -= n_bytes


def bytes_of_pass(run: Callable[[], object]) -> int:
    """Return about how many bytes `run` needs at one time for the tensors that it creates."""
    with _LiveBytes() as live:
        run()
    return round(_COPIES * live.most)


def bytes_of_device(device: torch.device) -> int:
    """Return the memory of a GPU, or of the machine or its container."""
    return torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else memory_bytes()
