"""Running statistics of batch norm: the means and variances that evaluation mode uses."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from utils.torch_private import copy_all

BatchNorm = nn.BatchNorm2d | nn.SyncBatchNorm


def batch_norms(network: nn.Module) -> list[BatchNorm]:
    """Return the batch norms of a network that have running statistics."""
    return [module for module in network.modules() if isinstance(module, BatchNorm) and module.running_mean is not None]


def running_statistics(network: nn.Module) -> list[Tensor]:
    """Return the running means and variances of a network, without copying."""
    pairs = [(norm.running_mean, norm.running_var) for norm in batch_norms(network)]
    return [tensor for pair in pairs for tensor in pair if tensor is not None]


def restore_broken(statistics: Sequence[Tensor], former: Tensor, is_good: Tensor | bool = True) -> Tensor:
    """Restore `former` unless all statistics are finite and `is_good` is true. Return whether the new values were kept.

    former: Earlier values of all statistics, concatenated.
    is_good: 0-d bool tensor on the device, or a bool. The result is a 0-d tensor, which avoids a host sync.
    """
    present = torch.cat(list(statistics))
    is_kept = present.isfinite().all() & is_good
    copy_all(statistics, torch.where(is_kept, present, former).split([len(tensor) for tensor in statistics]))
    return is_kept


@contextmanager
def untracked(norms: Sequence[BatchNorm]) -> Iterator[None]:
    """Context manager: passes in training mode do not change the running statistics.

    Batch norm updates copies instead. Without them, a recomputed pass would save fewer tensors than the first pass.
    """
    kept = [(norm, name, buffer) for norm in norms for name, buffer in norm.named_buffers(recurse=False)]
    for norm, name, buffer in kept:
        setattr(norm, name, buffer.clone())
    try:
        yield
    finally:
        for norm, name, buffer in kept:
            setattr(norm, name, buffer)


@contextmanager
def estimating_statistics(network: nn.Module) -> Iterator[None]:
    """Context manager that replaces the running statistics with the mean batch statistics of the passes inside it.

    Batch norms are in training mode, and all other layers in evaluation mode. (torch's `update_bn` would also enable
    dropout.) num_batches_tracked does not change. The former statistics are restored if there is an error or no
    pass, or if a new statistic is not finite.
    """
    modes = {module: module.training for module in network.modules()}
    norms = batch_norms(network)
    former = [(norm, norm.momentum, copy.deepcopy(norm.state_dict())) for norm in norms]
    network.eval()
    for norm in norms:
        norm.train().reset_running_stats()
        norm.momentum = None  # None means the average of all batches since the reset
    is_estimated = False
    try:
        yield
        is_finite = all(bool(statistic.isfinite().all()) for statistic in running_statistics(network))
        is_estimated = is_finite and all(norm.num_batches_tracked for norm in norms)
    finally:
        for norm, momentum, state in former:
            estimated = norm.state_dict() if is_estimated else state
            norm.momentum = momentum
            norm.load_state_dict({**estimated, "num_batches_tracked": state["num_batches_tracked"]})
        for module, mode in modes.items():
            module.training = mode
