"""Activation checkpointing: the backward pass recomputes activations instead of storing them."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from models.generator import EncodedGenerator
from models.running_statistics import BatchNorm, batch_norms, untracked
from models.spectral_norm import SpectralNorm, Vectors, chosen_vectors, spectral_norms
from utils.errors import ConfigError
from utils.torch_private import left_out_of_compilation


class Recomputable(nn.Module):
    """Part of a network that recomputes its inner activations in the backward pass if `recomputes` is set.

    Chen et al. 2016, "Training deep nets with sublinear memory cost".
    """

    recomputes = False

    def stored_or_recomputed(self, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """Return function(*inputs), and recompute its inner activations if `recomputes` is set.

        The recomputation draws the same random numbers, uses spectral norm's vectors of the first pass, and leaves
        batch norm's running statistics unchanged.
        """
        if not (self.recomputes and torch.is_grad_enabled()):
            return function(*inputs)
        spectral, batch = spectral_norms(self), batch_norms(self)
        if spectral or batch:
            return _with_norms_as_before(spectral, batch, draws(self), function, *inputs)
        recomputed: Tensor = checkpoint(function, *inputs, use_reentrant=False, preserve_rng_state=draws(self))
        return recomputed


def draws(part: nn.Module) -> bool:
    """Return whether a part of a network draws random numbers; a CUDA graph cannot read the generator's state."""
    return any(isinstance(module, nn.Dropout) for module in part.modules())


@left_out_of_compilation  # torch.compile would trace one pass for the first and for the replays of its vectors
def _with_norms_as_before(
    spectral: list[SpectralNorm],
    batch: list[BatchNorm],
    preserve_rng_state: bool,
    function: Callable[..., Tensor],
    *inputs: Tensor,
) -> Tensor:
    first_pass: list[dict[SpectralNorm, Vectors]] = []  # its vectors

    def compute(*inputs: Tensor) -> Tensor:
        """Make the first pass, or recompute it for a backward pass."""
        if first_pass:
            with chosen_vectors(first_pass[0]), untracked(batch):
                return function(*inputs)
        result = function(*inputs)
        first_pass.append({norm: norm.vectors() for norm in spectral})
        return result

    recomputed: Tensor = checkpoint(compute, *inputs, use_reentrant=False, preserve_rng_state=preserve_rng_state)
    return recomputed


def enable_activation_checkpointing(network: nn.Module) -> None:
    """Make every Recomputable of a network recompute its inner activations, in place.

    Raises:
        ConfigError: A generator has none.
    """
    generator = network.generator if isinstance(network, EncodedGenerator) else network
    if not any(isinstance(module, Recomputable) for module in generator.modules()):
        name = type(generator).__name__
        raise ConfigError(f"train.activation_checkpointing: {name} has no parts to recompute. Set it to false.")
    for module in network.modules():
        if isinstance(module, Recomputable):
            module.recomputes = True
