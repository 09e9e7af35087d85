"""A network in training: its weights, its copy for forward passes, and its frozen parts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from configs.schema import TrainConfig
from utils.errors import ConfigError

T = TypeVar("T")
Role = Literal["generator", "discriminator", "projection"]
Wrap = Callable[[nn.Module], nn.Module]


@dataclass
class TrainedNetwork:
    """A network in training.

    module: Network with the weights that are saved.
    compute_copy: Network for forward passes: `module` itself, or a copy with 16-bit weights, which gets the new weights
        after each update. In apex, the copy has the "model weights", and the module has the "master weights".
    wrap: Function that compiles `compute_copy` or wraps it in DistributedDataParallel.
    role: Type of the network. It selects the learning rate.
    network: Wrapped `compute_copy`, for training passes.
    parameters: Trained parameters of the module.
    receivers: Trained parameters of `compute_copy`. They receive the gradients.
    frozen: Name prefixes of the frozen parameters.
    """

    module: nn.Module
    compute_copy: nn.Module
    wrap: Wrap
    role: Role
    network: nn.Module = field(init=False)
    parameters: list[nn.Parameter] = field(init=False)
    receivers: list[nn.Parameter] = field(init=False)
    frozen: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        self.freeze([])

    def freeze(self, prefixes: Sequence[str]) -> None:
        """Freeze all parameters whose names begin with one of `prefixes`, and train the others.

        A prefix consists of whole parts of a name. Frozen parameters get no gradient, but keep their optimizer state.
        """
        names = [name for name, _ in self.module.named_parameters()]
        for prefix in prefixes:
            if not any(_begins_with(name, prefix) for name in names):
                parts = ", ".join(name for name, _ in self.module.named_children())
                raise ConfigError(f"train.freeze: the {self.role} has no part {prefix!r}. Its parts are {parts}.")
        for network in (self.module, self.compute_copy):
            for name, parameter in network.named_parameters():
                parameter.requires_grad_(not any(_begins_with(name, prefix) for prefix in prefixes))
        self.parameters = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        if not self.parameters:
            raise ConfigError(f"train.freeze={list(prefixes)}: no parameter of the {self.role} would be trained.")
        self.receivers = [parameter for parameter in self.compute_copy.parameters() if parameter.requires_grad]
        self.frozen = prefixes
        self.network = self.wrap(self.compute_copy)  # DDP reads requires_grad only when it wraps a network

    def receive_gradients(self) -> None:
        """Move gradients from `compute_copy` to `module`, in the module's dtype, if the two are different networks."""
        for ours, copied in zip(self.module.parameters(), self.compute_copy.parameters(), strict=True):
            if copied is not ours and copied.grad is not None:
                ours.grad, copied.grad = copied.grad.to(ours.dtype), None

    @torch.no_grad()
    def update_copy(self) -> None:
        """Copy the weights of `module` to `compute_copy`, and the buffers of `compute_copy` to `module`."""
        for ours, copied in zip(self.module.parameters(), self.compute_copy.parameters(), strict=True):
            if copied is not ours and ours.requires_grad:
                copied.copy_(ours)
        for kept, passed in zip(self.module.buffers(), self.compute_copy.buffers(), strict=True):
            if passed is not kept:
                kept.copy_(passed)

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Load weights and buffers from a state dict."""
        for network in {self.module, self.compute_copy}:
            network.load_state_dict(weights)

    @property
    def n_weight_bytes(self) -> int:
        """Bytes of the module's parameters."""
        return sum(parameter.nbytes for parameter in self.module.parameters())


def synchronized_passes(passes: Sequence[T], *networks: TrainedNetwork) -> Iterator[T]:
    """Yield each pass of an update. Processes average the gradients of these networks only in the last pass."""
    for number, inputs in enumerate(passes, start=1):
        with ExitStack() as stack:
            for network in networks if number < len(passes) else ():
                if isinstance(network.network, DistributedDataParallel):
                    stack.enter_context(network.network.no_sync())
            yield inputs


def _begins_with(name: str, prefix: str) -> bool:
    return f"{name}.".startswith(f"{prefix.removesuffix('.')}.")


def freeze_parts(networks: Mapping[str, TrainedNetwork], settings: TrainConfig, epoch: int) -> None:
    """Freeze `settings.freeze`. In the first `freeze_global_epochs` epochs, also freeze generators' `coarse_parts`."""
    always = [part.split(".", 1) for part in settings.freeze]
    if unknown := [network for network, _ in always if network not in networks]:
        raise ConfigError(f"train.freeze: no network {unknown[0]!r}. The networks are {', '.join(networks)}.")
    for name, network in networks.items():
        coarse = getattr(network.module, "coarse_parts", ()) if epoch < settings.freeze_global_epochs else ()
        prefixes = [*(part for owner, part in always if owner == name), *coarse]
        if prefixes != network.frozen:
            network.freeze(prefixes)
