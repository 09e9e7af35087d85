"""One network of the update, with the optimizer and the GradScaler that are its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim import Adam

from models.running_statistics import restore_broken, running_statistics
from training.finite import all_finite, are_finite

Wrap = Callable[[nn.Module], nn.Module]


@dataclass
class TrainableNetwork:
    """Generator or discriminator.

    module: the network; its weights are those that are saved.
    compute_copy: what computes in its place: the module itself, or a copy in a lower dtype that receives the weights of
        each update (apex calls them model weights, and those of the module master weights).
    wrap: makes of that what a training pass calls, which under DDP averages gradients over the processes.
    optimizer: of all the module's parameters; fused, so that it leaves out an update whose `found_inf` is set on the
        device.
    network: `compute_copy`, wrapped.
    parameters: those of the module that are trained at present.
    skipped_steps: 0-d int64 on the device: updates left out because a gradient was not finite.
    skipped_in_a_row: those since the latest update that was made.
    gradient_norm: 0-d, that of the latest step before clipping, where it `measures_gradients`.
    """

    module: nn.Module
    compute_copy: nn.Module
    wrap: Wrap
    optimizer: Adam
    scaler: GradScaler
    max_gradient_norm: float | None
    measures_gradients: bool = False
    network: nn.Module = field(init=False)
    parameters: list[nn.Parameter] = field(init=False)
    skipped_steps: Tensor = field(init=False)
    skipped_in_a_row: Tensor = field(init=False)
    gradient_norm: Tensor | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.freeze([])
        self.skipped_steps = torch.zeros((), dtype=torch.int64, device=self.parameters[0].device)
        self.skipped_in_a_row = torch.zeros_like(self.skipped_steps)
        self._is_broken = torch.zeros_like(self.skipped_steps, dtype=torch.bool)
        self._statistics = running_statistics(self.module)
        self._learning_rate = float(self.optimizer.param_groups[0]["lr"])

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
        self._receivers = [parameter for parameter in self.compute_copy.parameters() if parameter.requires_grad]
        self.network = self.wrap(self.compute_copy)  # DDP knows only what was trained when it wrapped

    @contextmanager
    def undoing_statistics(self) -> Iterator[None]:
        """Give the running statistics of batch norm their former values at the end, where an update is left out.

        Also where one of them is not finite: the other network's updates make passes of this one too.
        """
        if not self._statistics:
            yield
            return
        former, n_skipped = torch.cat(self._statistics), self.skipped_steps.clone()
        yield
        restore_broken(self._statistics, former, self.skipped_steps == n_skipped)

    def backward(self, loss: Tensor, *, retain_graph: bool = False) -> None:
        """Add the gradients of a 0-d loss to this network's parameters, and to no others.

        Those of a loss that is not finite are NaN, though the loss may have grown by a constant alone.
        """
        loss = loss * torch.where(loss.detach().isfinite(), 1.0, torch.nan)
        self.scaler.scale(loss).backward(retain_graph=retain_graph, inputs=self._receivers)

    def step(self) -> None:
        """Update the weights from the gathered gradients, or leave the update out where one of them is not finite.

        The device decides that, in every precision, without asking the host. The other network steps all the same.
        """
        self.apply_gradients()
        self.scaler.update()
        self.skipped_steps += self._is_broken
        self.skipped_in_a_row.add_(1).mul_(self._is_broken)
        self._is_broken.zero_()

    def apply_gradients(self) -> None:
        """Update the weights that have gradients, and free these."""
        if self.compute_copy is not self.module:
            self._receive_gradients()
        self.scaler.unscale_(self.optimizer)
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        if not gradients:
            return
        self._is_broken |= all_finite(gradients).logical_not()
        norm = get_total_norm(gradients) if self.measures_gradients or self.max_gradient_norm is not None else None
        if self.max_gradient_norm is not None:
            assert norm is not None
            clip_grads_with_norm_(self.parameters, self.max_gradient_norm, norm)
        self.gradient_norm = norm if self.measures_gradients else None
        if not self.scaler.is_enabled():  # an enabled scaler sets the same attribute
            self.optimizer.found_inf = self._is_broken.float()  # type: ignore[attr-defined]
        self.scaler.step(self.optimizer)
        self.optimizer.zero_grad(set_to_none=True)
        if self.compute_copy is not self.module:
            self._update_copy()

    def _receive_gradients(self) -> None:
        """Move the gradients of a copy to the module, in the module's dtype."""
        for ours, copied in zip(self.module.parameters(), self.compute_copy.parameters(), strict=True):
            if copied is not ours and copied.grad is not None:
                ours.grad, copied.grad = copied.grad.to(ours.dtype), None

    @torch.no_grad()
    def _update_copy(self) -> None:
        """Give a copy the module's weights, and the module what the copy's passes left in its buffers."""
        for ours, copied in zip(self.module.parameters(), self.compute_copy.parameters(), strict=True):
            if copied is not ours and ours.requires_grad:
                copied.copy_(ours)
        for kept, passed in zip(self.module.buffers(), self.compute_copy.buffers(), strict=True):
            if passed is not kept:
                kept.copy_(passed)

    @property
    def n_weight_bytes(self) -> int:
        """Bytes of the module's parameters."""
        return sum(parameter.numel() * parameter.element_size() for parameter in self.module.parameters())

    @property
    def n_gradient_bytes(self) -> int:
        """Bytes that the gradients take in memory at once."""
        return sum(parameter.numel() * parameter.element_size() for parameter in self.parameters)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next steps."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        if value == self._learning_rate:
            return
        self._learning_rate = value
        for group in self.optimizer.param_groups:
            group["lr"] = value

    def is_finite(self) -> bool:
        """Return whether weights, buffers and the optimizer's state are finite; waits for the device."""
        moments = [value for state in self.optimizer.state.values() for value in state.values()]
        return are_finite([*self.module.parameters(), *self.module.buffers(), *moments])

    def state_dict(self) -> dict[str, Any]:
        """Return weights, the optimizer's state by parameter, scaler and count of skipped steps, as plain types."""
        states = self.optimizer.state
        named = self.module.named_parameters()
        return {
            "network": self.module.state_dict(),
            "optimizer": {name: states[parameter] for name, parameter in named if parameter in states},
            "scaler": self.scaler.state_dict(),
            "skipped_steps": int(self.skipped_steps),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what `state_dict` returned, but for the settings: learning rate and betas stay as configured.

        A scaler that only one of the two runs uses starts from its initial scale.
        """
        self.load_weights(state["network"])
        names = {parameter: name for name, parameter in self.module.named_parameters()}
        saved = state["optimizer"]
        if "param_groups" in saved:  # checkpoints of format version 1 have it by position
            saved = {name: saved["state"][i] for i, name in enumerate(names.values()) if i in saved["state"]}
        in_order = [names[parameter] for group in self.optimizer.param_groups for parameter in group["params"]]
        by_position = {i: saved[name] for i, name in enumerate(in_order) if name in saved}
        settings = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": by_position, "param_groups": settings})
        if self.scaler.is_enabled() and state["scaler"]:  # the state of a disabled scaler is empty
            self.scaler.load_state_dict(state["scaler"])
        self.skipped_steps.fill_(state["skipped_steps"])

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Load the weights and buffers of a network of the module's form."""
        self.module.load_state_dict(weights)
        if self.compute_copy is not self.module:
            self.compute_copy.load_state_dict(weights)


def make_adam(module: nn.Module, *, learning_rate: float, betas: tuple[float, float], weight_decay: float) -> Adam:
    """Return a fused Adam of all parameters; the weight decay, decoupled as AdamW's, spares biases and norms.

    Only the fused one leaves out an update by itself where gradients are broken, without the host asking (`step`).
    """
    weights = [parameter for parameter in module.parameters() if parameter.dim() > 1]
    spared = [parameter for parameter in module.parameters() if parameter.dim() <= 1]
    groups = [{"params": weights, "weight_decay": weight_decay}, {"params": spared, "weight_decay": 0.0}]
    return Adam(groups, lr=learning_rate, betas=betas, decoupled_weight_decay=True, fused=True)


def _begins_with(name: str, prefix: str) -> bool:
    return f"{name}.".startswith(f"{prefix.removesuffix('.')}.")


def _part(name: str) -> str:
    """Return the part of a network that a parameter belongs to: its module's name up to the first number."""
    words = name.split(".")
    numbers = [place for place, word in enumerate(words) if word.isdecimal()]
    return ".".join(words[: numbers[0] + 1] if numbers and numbers[0] else words[:1])
