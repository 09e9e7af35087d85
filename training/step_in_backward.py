"""Updates within the backward pass: less memory, for the promise that an update is made completely or not at all.

Experimental, and off unless optimizer.step_in_backward asks for it.
"""

import weakref
from collections.abc import Callable

from torch import Tensor

from training.trainable import TrainableNetwork

LARGE = 2**20  # values of a weight whose update is worth a call of its own; 4 MB in float32


class SteppingInBackward(TrainableNetwork):
    """A network whose LARGE weights are updated as soon as their gradients are there, which are then freed.

    For one backward pass a step, after which nothing needs the graph, whose gradients are neither scaled, clipped nor
    measured. An update that is not finite is left out only from the first such gradient on: weights whose gradients
    came before it are updated.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.compute_copy is self.module, "the copy's gradients are the module's only at the end"
        assert self.max_gradient_norm is None
        assert not self.measures_gradients
        assert not self.scaler.is_enabled()
        for parameter in self.parameters:
            if parameter.numel() >= LARGE:
                parameter.register_post_accumulate_grad_hook(_applying(self))

    @property
    def n_gradient_bytes(self) -> int:
        """Bytes that the gradients take in memory at once: of the LARGE ones only the largest."""
        large = [p.numel() * p.element_size() for p in self.parameters if p.numel() >= LARGE]
        return super().n_gradient_bytes - sum(large) + max(large, default=0)


def _applying(network: SteppingInBackward) -> Callable[[Tensor], None]:
    """Return a hook for a gradient that has the network update the weight."""
    known = weakref.ref(network)  # torch's hooks are hidden from the garbage collector: a cycle would never be freed

    def apply(_: Tensor) -> None:
        if living := known():
            living.apply_gradients()

    return apply
