"""Activation checkpointing: parts of a network that are computed again in the backward pass instead of stored."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from models.spectral_norm import SpectralNorm, recorded_and_replayed, spectral_norms


class Recomputable(nn.Module):
    """Part of a network that can recompute its inner activations in the backward pass instead of storing them.

    recomputes: whether it does (Chen et al. 2016, "Training deep nets with sublinear memory cost").
    draws: whether a layer in it draws random numbers, which the recomputation must draw again.
    """

    recomputes = False
    draws = False

    def stored_or_recomputed(self, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """Return function(*inputs), whose inner activations are recomputed where this part does so.

        The recomputation makes no step of spectral norm's power iteration: it has the vectors of the first pass.
        """
        if not (self.recomputes and torch.is_grad_enabled()):
            return function(*inputs)
        norms = spectral_norms(self)
        if norms:
            return _with_same_vectors(norms, self.draws, function, *inputs)
        recomputed: Tensor = checkpoint(function, *inputs, use_reentrant=False, preserve_rng_state=self.draws)
        return recomputed


@torch.compiler.disable  # torch.compile does not know the argument context_fn: these layers are called as written
def _with_same_vectors(
    norms: list[SpectralNorm], draws: bool, function: Callable[..., Tensor], *inputs: Tensor
) -> Tensor:
    recomputed: Tensor = checkpoint(
        function,
        *inputs,
        use_reentrant=False,
        preserve_rng_state=draws,
        context_fn=lambda: recorded_and_replayed(norms),
    )
    return recomputed


def enable_activation_checkpointing(network: nn.Module) -> None:
    """Make every Recomputable of a network recompute its inner activations, in place.

    Only for networks without batch norm, whose running statistics would count each pass twice.
    """
    for module in network.modules():
        if isinstance(module, Recomputable):
            module.recomputes = True
            module.draws = any(isinstance(layer, nn.Dropout) for layer in module.modules())
