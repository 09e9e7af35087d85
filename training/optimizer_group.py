"""An optimizer group: one or more networks with one Adam, one GradScaler, and one decision to leave an update out."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim import Adam

from models.running_statistics import restore_broken, running_statistics
from training.running_means import RunningMeans
from training.trained_network import Role, TrainedNetwork
from utils.errors import UserError


@dataclass
class OptimizerGroup:
    """Networks that step together.

    optimizer: Adam of all their parameters; fused, so that it skips an update if `found_inf` is set on the device.
    skipped_steps: 0-d int64 on the device: updates skipped because a gradient was not finite.
    skipped_in_a_row: Updates skipped since the latest update that was made.
    """

    networks: Mapping[str, TrainedNetwork]
    optimizer: Adam
    scaler: GradScaler
    max_gradient_norm: float | None
    skipped_steps: Tensor = field(init=False)
    skipped_in_a_row: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.skipped_steps = torch.zeros((), dtype=torch.int64, device=self.parameters[0].device)
        self.skipped_in_a_row = torch.zeros_like(self.skipped_steps)
        self._learning_rate = float(self.optimizer.param_groups[0]["lr"])
        self._statistics = [value for network in self.networks.values() for value in running_statistics(network.module)]

    @property
    def role(self) -> Role:
        """The role of its networks, which is one."""
        return next(iter(self.networks.values())).role

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters that are trained at present."""
        return [parameter for network in self.networks.values() for parameter in network.parameters]

    @contextmanager
    def undoing_statistics(self) -> Iterator[None]:
        """Restore the running statistics of batch norm at the end if an update is skipped or one is not finite."""
        if not self._statistics:
            yield
            return
        former, n_skipped = torch.cat(self._statistics), self.skipped_steps.clone()
        yield
        restore_broken(self._statistics, former, self.skipped_steps == n_skipped)

    def backward(self, loss: Tensor, *, retain_graph: bool = False) -> None:
        """Add the gradients of a 0-d loss to the parameters of these networks, and to no others.

        A loss that is not finite gives gradients of NaN, even where its infinity is a constant without gradient.
        """
        loss = loss * torch.where(loss.detach().isfinite(), 1.0, torch.nan)
        receivers = [parameter for network in self.networks.values() for parameter in network.receivers]
        self.scaler.scale(loss).backward(retain_graph=retain_graph, inputs=receivers)

    def step(self, name: str, means: RunningMeans) -> None:
        """Update the weights from the accumulated gradients, or skip the update if one of them is not finite.

        The device decides that in every precision, without asking the host. Other groups step nevertheless.

        name, means: Name and place of the gradient norm before clipping, if gradients are clipped.
        """
        for network in self.networks.values():
            network.receive_gradients()
        self.scaler.unscale_(self.optimizer)
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        assert gradients, "a step comes after a backward pass"
        is_broken = all_finite(gradients).logical_not()
        if self.max_gradient_norm is not None:
            norm = get_total_norm(gradients)
            clip_grads_with_norm_(self.parameters, self.max_gradient_norm, norm)
            means.add({name: norm}, "gradient_norm/")
        if not self.scaler.is_enabled():  # an enabled scaler sets the same attribute
            self.optimizer.found_inf = is_broken.float()  # type: ignore[attr-defined]
        self.scaler.step(self.optimizer)
        self.optimizer.zero_grad(set_to_none=True)
        for network in self.networks.values():
            network.update_copy()
        self.scaler.update()
        self.skipped_steps += is_broken
        self.skipped_in_a_row.add_(1).mul_(is_broken)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next steps."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        if value == self._learning_rate:
            return
        self._learning_rate = value  # a CUDA graph reads a float32 tensor
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(value)
            else:
                group["lr"] = value

    @property
    def moments(self) -> list[Tensor]:
        """Adam's state."""
        return [value for state in self.optimizer.state.values() for value in state.values()]

    def state_dict(self) -> dict[str, Any]:
        """Return the moments by network and parameter, scaler and count of skipped steps, as plain types."""
        states, modules = self.optimizer.state, {name: network.module for name, network in self.networks.items()}
        return {
            "moments": {
                name: {key: states[weight] for key, weight in module.named_parameters() if weight in states}
                for name, module in modules.items()
            },
            "scaler": self.scaler.state_dict(),
            "skipped_steps": int(self.skipped_steps),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state, but not its learning rate and betas. A scaler without a state starts from its first scale."""
        self.optimizer.state.clear()
        for name, network in self.networks.items():
            for parameter, saved in _by_parameter(network.module, state["moments"][name]).items():
                if {saved[key].shape for key in ("exp_avg", "exp_avg_sq")} != {parameter.shape}:
                    raise ValueError(f"moments of {name} have other shapes than its weights")
                self.optimizer.state[parameter] = {  # copies: the originals may be in the checkpoint's file
                    "step": saved["step"].to(parameter.device, torch.float32, copy=True),
                    **{key: saved[key].to(parameter, copy=True) for key in ("exp_avg", "exp_avg_sq")},
                }
        if self.scaler.is_enabled() and state["scaler"]:  # the state of a disabled scaler is empty
            self.scaler.load_state_dict(state["scaler"])
        self.skipped_steps.fill_(state["skipped_steps"])


def _by_parameter(module: nn.Module, moments: Mapping[str, Any]) -> dict[nn.Parameter, Any]:
    """Return saved moments by the parameters that they belong to."""
    named = dict(module.named_parameters())
    return {parameter: moments[name] for name, parameter in named.items() if name in moments}


def all_finite(tensors: Sequence[Tensor]) -> Tensor:
    """Return whether the tensors, at least one, hold neither NaN nor infinity: 0-d bool on the device, without a wait.

    It checks their extremes, because a sum of squares could overflow.
    """
    if tensors[0].device.type != "cpu":  # a few kernels for all, where aminmax starts one for each; slower on a CPU
        return get_total_norm(tensors, norm_type=math.inf).isfinite()
    return torch.stack([bound.float() for tensor in tensors for bound in tensor.aminmax()]).isfinite().all()


CHECKED_EVERY_STEPS = 10  # a check waits for the device
MAX_SKIPPED = 10  # updates left out in a row; so many cannot be a batch's fault
MAX_SKIPPED_SCALED = 50  # under float16, where a scale that is too high is found by leaving updates out


class NotFiniteError(UserError):
    """Training has produced NaN or infinity, and continuing would not help."""


def are_finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether no floating-point tensor holds NaN or infinity; waits for the device."""
    checks = [tensor.isfinite().all() for tensor in tensors if tensor.is_floating_point()]
    return not checks or bool(torch.stack([check.cpu() for check in checks]).all())


class SkippedUpdates:
    """Watches for too many skipped updates in a row, and knows the names of the latest samples."""

    def __init__(self, optimizers: Mapping[str, OptimizerGroup]) -> None:
        self._optimizers = optimizers
        self._recent_names: deque[str] = deque(maxlen=CHECKED_EVERY_STEPS)

    def record(self, names: str) -> None:
        """Remember the samples of a step."""
        self._recent_names.append(names)

    def error(self, step: int) -> NotFiniteError | None:
        """Return the error that ends the run if too many updates were skipped; wait for the device."""
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
