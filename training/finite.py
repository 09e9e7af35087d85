"""Numbers that are not finite."""

from collections.abc import Iterable

import torch
from torch import Tensor

from utils.errors import UserError


class NotFiniteError(UserError):
    """Training has produced NaN or infinity, and continuing would not mend it."""


def are_finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether no floating-point tensor holds NaN or infinity; waits for the device."""
    checks = [tensor.isfinite().all() for tensor in tensors if tensor.is_floating_point()]
    return not checks or bool(torch.stack([check.cpu() for check in checks]).all())
