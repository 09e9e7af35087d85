"""Numbers that are not finite, and the end of a training that produces nothing else."""

from collections import deque
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from training.optimizer_group import OptimizerGroup
from utils.errors import UserError

CHECKED_EVERY_STEPS = 10  # a check waits for the device
MAX_SKIPPED = 10  # updates left out in a row; so many cannot be a batch's fault
MAX_SKIPPED_SCALED = 50  # under float16, where a scale that is too high is found by leaving updates out


class NotFiniteError(UserError):
    """Training has produced NaN or infinity, and continuing would not mend it."""


def are_finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether no floating-point tensor holds NaN or infinity; waits for the device."""
    checks = [tensor.isfinite().all() for tensor in tensors if tensor.is_floating_point()]
    return not checks or bool(torch.stack([check.cpu() for check in checks]).all())


class SkippedUpdates:
    """Counts the updates that were left out in a row, with the names of the samples that they were computed from."""

    def __init__(self, optimizers: Mapping[str, OptimizerGroup]) -> None:
        self._optimizers = optimizers
        self._recent_names: deque[str] = deque(maxlen=CHECKED_EVERY_STEPS)

    def record(self, names: str) -> None:
        """Remember the samples of a step."""
        self._recent_names.append(names)

    def error(self, step: int) -> NotFiniteError | None:
        """Return the error that ends the run where too many updates were left out; waits for the device."""
        for name, group in self._optimizers.items():
            has_scale, in_a_row = group.scaler.is_enabled(), int(group.skipped_in_a_row)
            scale = group.scaler.get_scale()
            if in_a_row < (MAX_SKIPPED_SCALED if has_scale else MAX_SKIPPED) and not (has_scale and scale < 1):
                continue
            how = f", and its scale has fallen to {scale:g}" if has_scale else ""
            return NotFiniteError(
                f"step {step}: gradients of the {name} were not finite {in_a_row} times in a row{how}; "
                f"weights were not updated from them. The latest samples: {', '.join(self._recent_names)}. Lower "
                "optimizer.learning_rate, or use amp.opt_level=O0"
            )
        return None
