"""Numbers that are not finite."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from utils.errors import UserError


class NotFiniteError(UserError):
    """Training has produced NaN or infinity, and continuing would not mend it."""


def are_finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether no floating-point tensor holds NaN or infinity; waits for the device."""
    checks = [tensor.isfinite().all() for tensor in tensors if tensor.is_floating_point()]
    return not checks or bool(torch.stack([check.cpu() for check in checks]).all())


def all_finite(tensors: Sequence[Tensor]) -> Tensor:
    """Return whether the tensors, at least one, hold neither NaN nor infinity: 0-d bool on the device, without a wait.

    By their extremes, which unlike a sum of squares cannot overflow.
    """
    if tensors[0].is_cuda:  # a few kernels for all, where aminmax starts one for each; on a CPU it takes longer
        return get_total_norm(tensors, norm_type=math.inf).isfinite()
    return torch.stack([bound.float() for tensor in tensors for bound in tensor.aminmax()]).isfinite().all()
