"""A batch on its way from a loader process to the training, in a file in memory that both have open.

The kernel fills its pages as it is written. The shared memory of torch is cleared first, page by page at the first
access to each, which takes longer than the copy. Errors are raised here, not in the thread of the queue, where they
would be lost.
"""

import mmap
import os
import sys
from math import prod
from multiprocessing import reduction
from typing import Any

import torch

from data.batch import MAPS, Batch

_ALIGNMENT = 64  # bytes
_Place = tuple[str, torch.dtype, torch.Size, int]  # name, type, shape and first byte of a map


class SentBatch:
    """A batch that is received as a Batch where it is unpickled, once; where HAS_MEMORY_FILES.

    Raises:
        OSError: there is too little memory.
    """

    _names: tuple[str, ...]
    _places: list[_Place]
    _descriptor: Any

    def __init__(self, batch: Batch) -> None:
        if sys.platform != "linux":
            raise NotImplementedError
        self._names = batch.names
        self._places = []
        with open(os.memfd_create("batch"), "wb") as file:  # noqa: PTH123  of a descriptor
            for name in MAPS:
                if (tensor := getattr(batch, name)) is not None:
                    start = file.seek(-file.seek(0, 1) % _ALIGNMENT, 1)
                    self._places.append((name, tensor.dtype, tensor.shape, start))
                    file.write(tensor.contiguous().numpy().data)
            file.flush()
            self._descriptor = reduction.DupFd(file.fileno())

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self._names, self._descriptor, self._places)


def _received(names: tuple[str, ...], descriptor: Any, places: list[_Place]) -> Batch:
    number = descriptor.detach()
    try:
        content = mmap.mmap(number, 0)  # the maps keep it
    finally:
        os.close(number)
    maps: dict[str, Any] = dict.fromkeys(MAPS) | {
        name: torch.frombuffer(content, dtype=dtype, count=prod(shape), offset=start).view(shape)
        for name, dtype, shape, start in places
    }
    return Batch(names, **maps)
