"""One network of the game, with the optimizer and the scaler that are its own."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim import Adam


@dataclass
class Player:
    """Generator or discriminator.

    network: what a training pass calls; under DDP it averages gradients over the processes.
    module: the same network, bare.
    optimizer: fused, which leaves out an update whose `found_inf` is set on the device.
    skipped_steps: 0-d int64 on the device: updates left out because a gradient was not finite.
    """

    network: nn.Module
    module: nn.Module
    optimizer: Adam
    scaler: GradScaler
    max_gradient_norm: float | None
    skipped_steps: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.parameters = list(self.module.parameters())
        self.skipped_steps = torch.zeros((), dtype=torch.int64, device=self.parameters[0].device)

    def backward(self, loss: Tensor, *, retain_graph: bool = False) -> None:
        """Add the gradients of a 0-d loss to this player's parameters, and to no others."""
        self.scaler.scale(loss).backward(retain_graph=retain_graph, inputs=self.parameters)

    def step(self) -> None:
        """Update the weights from the gathered gradients; one that is not finite skips this player's update alone.

        The device decides that, in every precision, without asking the host.
        """
        self.scaler.unscale_(self.optimizer)
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        largest = get_total_norm(gradients, norm_type=math.inf)  # unlike a sum of squares it cannot overflow
        is_broken = largest.isfinite().logical_not()
        self.skipped_steps += is_broken
        if self.max_gradient_norm is not None:
            clip_grads_with_norm_(self.parameters, self.max_gradient_norm, get_total_norm(gradients))
        if not self.scaler.is_enabled():  # otherwise the scaler tells the optimizer by the same attribute
            self.optimizer.found_inf = is_broken.float()  # type: ignore[attr-defined]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next steps."""
        return float(self.optimizer.param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = value

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimizer, scaler and count of skipped steps, as plain types."""
        return {
            "network": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "skipped_steps": int(self.skipped_steps),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave, but for the settings: learning rate and betas stay as configured.

        A scaler that only one of the two runs uses starts anew.
        """
        self.module.load_state_dict(state["network"])
        settings = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state["optimizer"]["state"], "param_groups": settings})
        if self.scaler.is_enabled() and state["scaler"]:  # the state of a disabled scaler is empty
            self.scaler.load_state_dict(state["scaler"])
        self.skipped_steps.fill_(state["skipped_steps"])
