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
        """Return function(*inputs). If `recomputes` is set, the backward pass recomputes the inner activations.

        The recomputation draws the same random numbers and uses the same spectral norm vectors as the first pass. It
        does not change the running statistics of batch norm.
        """
        if not (self.recomputes and torch.is_grad_enabled()):
            return function(*inputs)
        spectral, batch = spectral_norms(self), batch_norms(self)
        if spectral or batch:
            return _recomputed_with_same_norms(spectral, batch, draws(self), function, *inputs)
        return checkpoint(function, *inputs, use_reentrant=False, preserve_rng_state=draws(self))


def draws(part: nn.Module) -> bool:
    """Return whether a pass draws random numbers. If so, the random state is saved, which CUDA graphs forbid."""
    return any(isinstance(module, nn.Dropout) for module in part.modules())


@left_out_of_compilation  # torch.compile cannot trace `compute`, whose later calls differ from its first call
def _recomputed_with_same_norms(
    spectral: list[SpectralNorm],
    batch: list[BatchNorm],
    preserve_rng_state: bool,
    function: Callable[..., Tensor],
    *inputs: Tensor,
) -> Tensor:
    first_vectors: list[dict[SpectralNorm, Vectors]] = []  # filled by the first pass

    def compute(*inputs: Tensor) -> Tensor:
        """Run the forward pass in the first call, and repeat it in later calls."""
        if first_vectors:
            with chosen_vectors(first_vectors[0]), untracked(batch):
                return function(*inputs)
        result = function(*inputs)
        first_vectors.append({norm: norm.vectors() for norm in spectral})
        return result

    return checkpoint(compute, *inputs, use_reentrant=False, preserve_rng_state=preserve_rng_state)


def enable_activation_checkpointing(network: nn.Module) -> None:
    """Set `recomputes` in every Recomputable of a network, in place.

    Raises:
        ConfigError: The generator contains no Recomputable.
    """
    generator = network.generator if isinstance(network, EncodedGenerator) else network
    if not any(isinstance(module, Recomputable) for module in generator.modules()):
        name = type(generator).__name__
        raise ConfigError(f"train.activation_checkpointing: {name} has no parts to recompute. Set the value to false.")
    for module in network.modules():
        if isinstance(module, Recomputable):
            module.recomputes = True
