"""A network in training: its weights, what computes with them, and which of its parts are frozen."""

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
    """A network that is trained, perhaps in part.

    module: the network; its weights are those that are saved.
    compute_copy: computes in its place: the module itself, or a copy in a lower dtype that receives the weights of each
        update (apex calls them model weights, and those of the module master weights).
    wrap: returns what is called in training passes: the copy, compiled or under DDP as the run has it.
    role: by which rates and frozen parts are set.
    network: what `wrap` returned.
    parameters: those of the module that are trained at present.
    receivers: those of `compute_copy`, which receive the gradients.
    frozen: the beginnings of the names of the others.
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
        """Train from now on all but the parameters whose names begin with one of `prefixes`, in complete words.

        No gradient is computed for the frozen ones. Their optimizer state stays until they are trained again.

        Raises:
            ValueError: no parameter has such a name, or none would be left.
        """
        names = [name for name, _ in self.module.named_parameters()]
        for prefix in prefixes:
            if not any(_begins_with(name, prefix) for name in names):
                parts = ", ".join(dict.fromkeys(_part(name) for name in names))
                raise ValueError(f"no parameter's name begins with {prefix!r}; the parts are {parts}")
        for network in (self.module, self.compute_copy):
            for name, parameter in network.named_parameters():
                parameter.requires_grad_(not any(_begins_with(name, prefix) for prefix in prefixes))
        self.parameters = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        if not self.parameters:
            raise ValueError("nothing would be left to train")
        self.receivers = [parameter for parameter in self.compute_copy.parameters() if parameter.requires_grad]
        self.frozen = prefixes
        self.network = self.wrap(self.compute_copy)  # DDP knows only what was trained when it wrapped

    def receive_gradients(self) -> None:
        """Move the gradients of a copy to the module, in the module's dtype; without effect where there is none."""
        for ours, copied in zip(self.module.parameters(), self.compute_copy.parameters(), strict=True):
            if copied is not ours and copied.grad is not None:
                ours.grad, copied.grad = copied.grad.to(ours.dtype), None

    @torch.no_grad()
    def update_copy(self) -> None:
        """Give a copy, if there is one, the module's weights, and the module what its passes left in their buffers."""
        for ours, copied in zip(self.module.parameters(), self.compute_copy.parameters(), strict=True):
            if copied is not ours and ours.requires_grad:
                copied.copy_(ours)
        for kept, passed in zip(self.module.buffers(), self.compute_copy.buffers(), strict=True):
            if passed is not kept:
                kept.copy_(passed)

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Load the weights and buffers of a network of the module's form."""
        for network in {self.module, self.compute_copy}:
            network.load_state_dict(weights)

    @property
    def n_weight_bytes(self) -> int:
        """Bytes of the module's parameters."""
        return sum(parameter.nbytes for parameter in self.module.parameters())


def synchronized_passes(passes: Sequence[T], *networks: TrainedNetwork) -> Iterator[T]:
    """Yield each pass of an update; the processes average these networks' gradients in the last one."""
    for number, inputs in enumerate(passes, start=1):
        with ExitStack() as stack:
            for network in networks if number < len(passes) else ():
                if isinstance(network.network, DistributedDataParallel):
                    stack.enter_context(network.network.no_sync())
            yield inputs


def _begins_with(name: str, prefix: str) -> bool:
    return f"{name}.".startswith(f"{prefix.removesuffix('.')}.")


def _part(name: str) -> str:
    """Return the part of a network that a parameter belongs to: its module's name up to the first number."""
    words = name.split(".")
    numbers = [place for place, word in enumerate(words) if word.isdecimal()]
    return ".".join(words[: numbers[0] + 1] if numbers and numbers[0] else words[:1])


def freeze_parts(networks: Mapping[str, TrainedNetwork], settings: TrainConfig, epoch: int) -> None:
    """Freeze what the settings freeze in an epoch, in the networks where that differs from what is frozen.

    These are the parts of `freeze`, and in the first `freeze_global_epochs` the `coarse_parts` of generators.

    Raises:
        ConfigError: a network has no such part, or nothing would be left to train.
    """
    always = [part.split(".", 1) for part in settings.freeze]
    if unknown := [network for network, _ in always if network not in networks]:
        raise ConfigError(f"train.freeze: no network {unknown[0]!r}; the networks are {', '.join(networks)}")
    for name, network in networks.items():
        coarse = getattr(network.module, "coarse_parts", ()) if epoch < settings.freeze_global_epochs else ()
        prefixes = [*(part for owner, part in always if owner == name), *coarse]
        if prefixes == network.frozen:
            continue
        try:
            network.freeze(prefixes)
        except ValueError as error:
            stage = " with train.freeze_global_epochs" if coarse else ""
            raise ConfigError(f"train.freeze{stage}, parts of {name}: {error}") from error
