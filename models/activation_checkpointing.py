"""Activation checkpointing: parts of a network that are computed again in the backward pass instead of stored."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from models.running_statistics import BatchNorm, Untracked, batch_norms
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

        The recomputation makes no step of spectral norm's power iteration: it has the vectors of the first pass. Nor
        does it count for the running statistics of batch norm.
        """
        if not (self.recomputes and torch.is_grad_enabled()):
            return function(*inputs)
        spectral, batch = spectral_norms(self), batch_norms(self)
        if spectral or batch:
            return _with_norms_as_before(spectral, batch, self.draws, function, *inputs)
        recomputed: Tensor = checkpoint(function, *inputs, use_reentrant=False, preserve_rng_state=self.draws)
        return recomputed


@torch.compiler.disable  # torch.compile does not know the argument context_fn: these layers are called as written
def _with_norms_as_before(
    spectral: list[SpectralNorm],
    batch: list[BatchNorm],
    draws: bool,
    function: Callable[..., Tensor],
    *inputs: Tensor,
) -> Tensor:
    recomputed: Tensor = checkpoint(
        function,
        *inputs,
        use_reentrant=False,
        preserve_rng_state=draws,
        context_fn=lambda: _contexts(spectral, batch),
    )
    return recomputed


def _contexts(
    spectral: list[SpectralNorm], batch: list[BatchNorm]
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the contexts of a pass and of its recomputation; the latter can be entered more than once."""
    recorded, replayed = recorded_and_replayed(spectral)
    return recorded, _Both(replayed, Untracked(batch))


class _Both(AbstractContextManager[None]):
    """Context of two contexts; can be entered again if both can."""

    def __init__(self, outer: AbstractContextManager[None], inner: AbstractContextManager[None]) -> None:
        self._outer = outer
        self._inner = inner

    def __enter__(self) -> None:
        self._outer.__enter__()
        self._inner.__enter__()

    def __exit__(self, *_: object) -> None:
        self._inner.__exit__(None, None, None)
        self._outer.__exit__(None, None, None)


def enable_activation_checkpointing(network: nn.Module) -> None:
    """Make every Recomputable of a network recompute its inner activations, in place."""
    for module in network.modules():
        if isinstance(module, Recomputable):
            module.recomputes = True
            module.draws = any(isinstance(layer, nn.Dropout) for layer in module.modules())
