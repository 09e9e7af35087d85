"""The running statistics of batch norm: means and variances that evaluation normalises by."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from torch import Tensor, nn

BatchNorm = nn.BatchNorm2d | nn.SyncBatchNorm
Buffers = dict[str, Tensor]


def batch_norms(network: nn.Module) -> list[BatchNorm]:
    """Return the norms of a network that have running statistics."""
    return [module for module in network.modules() if isinstance(module, BatchNorm) and module.running_mean is not None]


class Untracked(AbstractContextManager[None]):
    """Context in which passes in training mode leave the running statistics as they are; can be entered again.

    Batch norm has copies of them meanwhile. Without any it would keep fewer tensors for the backward pass, by which
    torch recognises that a recomputation is not that of its pass.
    """

    def __init__(self, norms: Sequence[BatchNorm]) -> None:
        self._norms = norms
        self._kept: list[list[Buffers]] = []

    def __enter__(self) -> None:
        self._kept.append([dict(norm.named_buffers(recurse=False)) for norm in self._norms])
        for norm, buffers in zip(self._norms, self._kept[-1], strict=True):
            _set(norm, {name: buffer.clone() for name, buffer in buffers.items()})

    def __exit__(self, *_: object) -> None:
        for norm, buffers in zip(self._norms, self._kept.pop(), strict=True):
            _set(norm, buffers)


def _set(norm: BatchNorm, buffers: Buffers) -> None:
    for name, buffer in buffers.items():
        setattr(norm, name, buffer)
