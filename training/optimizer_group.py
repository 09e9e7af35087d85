"""Optimizer groups (networks with one Adam and one GradScaler), learning rates, skipped updates and running means."""

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim import Adam

from configs.schema import OptimizerConfig
from models.running_statistics import restore_broken, running_statistics
from training.trained_network import Role, TrainedNetwork
from utils.distributed import World
from utils.errors import UserError


class RunningMeans:
    """Running means of scalars. Their sums and counts change in place on the device, and `flush` reads them.

    Means ignore NaN and infinity, because a single overflow would hide all other values of an interval.
    """

    def __init__(self) -> None:
        self._totals: dict[tuple[str, ...], Tensor] = {}  # (3, tags): sums, numbers of finite values and of all values

    def add(self, values: Mapping[str, Tensor], prefix: str) -> None:
        """Add the 0-d values of one pass under the tags `prefix` + name."""
        tags = tuple(prefix + name for name in values)
        seen = torch.stack([value.detach().float() for value in values.values()])
        is_finite = seen.isfinite()
        present = torch.stack([seen.where(is_finite, 0), is_finite.float(), torch.ones_like(seen)])
        if tags not in self._totals:
            self._totals[tags] = torch.zeros_like(present)
        self._totals[tags].add_(present)

    def flush(self, world: World, *, resets: bool = True) -> dict[str, float]:
        """Return the mean of each tag over all processes and all passes since the last reset. Then reset if `resets`.

        A mean is NaN if no value is finite.
        """
        totals = list(self._totals.values())
        taken = world.mean(torch.cat(totals, dim=1)).cpu().double()
        for total in totals if resets else ():
            total.zero_()
        summed: dict[str, Tensor] = defaultdict(lambda: taken.new_zeros(len(taken)))
        for tag, column in zip(chain.from_iterable(self._totals), taken.T, strict=True):
            summed[tag] = summed[tag] + column
        return {tag: float(total / n_finite) for tag, (total, n_finite, n_seen) in summed.items() if n_seen}

    def state(self) -> list[tuple[list[str], Tensor]]:
        """Return the tags of each `add` since the last reset, with their sums and counts, (3, tags) float32."""
        return [(list(tags), total.cpu()) for tags, total in self._totals.items() if total[2].any()]

    def load_state(self, state: Sequence[Any], device: torch.device) -> None:
        """Load the state that `state` returned."""
        for tags, total in state:
            self._totals[tuple(tags)] = torch.zeros(3, len(tags), device=device).copy_(total)


@dataclass
class OptimizerGroup:
    """Networks that are updated together.

    optimizer: Fused Adam for the parameters of all networks. It skips an update if `found_inf` is set on the device.
    skipped_steps: Number of updates that were skipped because a gradient was not finite, 0-d int64 on the device.
    skipped_in_a_row: Number of skipped updates since the latest update that was not skipped.
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
        self.learning_rate = float(self.optimizer.param_groups[0]["lr"])
        self._statistics = [value for network in self.networks.values() for value in running_statistics(network.module)]

    @property
    def role(self) -> Role:
        """The role of the first network. All networks of a group have this role, except a projection."""
        return next(iter(self.networks.values())).role

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters that are not frozen."""
        return [parameter for network in self.networks.values() for parameter in network.parameters]

    @contextmanager
    def undoing_statistics(self) -> Iterator[None]:
        """On exit, restore batch norm's running statistics if an update was skipped or a statistic is not finite."""
        if not self._statistics:
            yield
            return
        former, n_skipped = torch.cat(self._statistics), self.skipped_steps.clone()
        yield
        restore_broken(self._statistics, former, self.skipped_steps == n_skipped)

    def backward(self, loss: Tensor, *, retain_graph: bool = False) -> None:
        """Add the gradients of a 0-d loss to the trained parameters of this group only.

        If the loss is NaN or infinite, all gradients become NaN, even if only a constant in the loss is infinite.
        """
        loss = loss * torch.where(loss.detach().isfinite(), 1.0, torch.nan)
        receivers = [parameter for network in self.networks.values() for parameter in network.receivers]
        self.scaler.scale(loss).backward(retain_graph=retain_graph, inputs=receivers)

    def step(self, name: str, means: RunningMeans) -> None:
        """Update the weights from the accumulated gradients, or skip the update if a gradient is not finite.

        The device checks the gradients in every precision. The host does not wait. Other groups still update.

        means: If gradients are clipped, their norm before clipping is added to these means, as gradient_norm/`name`.
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

    def set_learning_rate(self, value: float) -> None:
        """Set the learning rate."""
        if value == self.learning_rate:
            return
        self.learning_rate = value  # the exact value; a CUDA graph has a rounded float32 copy
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(value)
            else:
                group["lr"] = value

    @property
    def moments(self) -> list[Tensor]:
        """All tensors of Adam's state."""
        return [value for state in self.optimizer.state.values() for value in state.values()]

    def state_dict(self) -> dict[str, Any]:
        """Return Adam's moments (by network and parameter), the scaler's state and skipped_steps, as plain types."""
        states = self.optimizer.state
        return {
            "moments": {
                name: {key: states[weight] for key, weight in one.module.named_parameters() if weight in states}
                for name, one in self.networks.items()
            },
            "scaler": self.scaler.state_dict(),
            "skipped_steps": int(self.skipped_steps),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the state that `state_dict` returned. A scaler without a saved state keeps its initial scale."""
        self.optimizer.state.clear()
        for name, network in self.networks.items():
            saved_by_name, named = state["moments"][name], dict(network.module.named_parameters())
            for parameter, saved in ((named[key], saved_by_name[key]) for key in named if key in saved_by_name):
                if {saved[key].shape for key in ("exp_avg", "exp_avg_sq")} != {parameter.shape}:
                    raise ValueError(f"moments of {name} have other shapes than its weights")
                self.optimizer.state[parameter] = {  # copies: the originals may be in the checkpoint's file
                    "step": saved["step"].to(parameter.device, torch.float32, copy=True),
                    **{key: saved[key].to(parameter, copy=True) for key in ("exp_avg", "exp_avg_sq")},
                }
        if self.scaler.is_enabled() and state["scaler"]:  # the state of a disabled scaler is empty
            self.scaler.load_state_dict(state["scaler"])
        self.skipped_steps.fill_(state["skipped_steps"])


def all_finite(tensors: Sequence[Tensor]) -> Tensor:
    """Return whether all tensors (at least one) are finite, as a 0-d bool on the device. The host does not wait.

    This checks minima and maxima, because a sum of squares could overflow.
    """
    if tensors[0].device.type != "cpu":  # few kernels for all tensors, but slower on a CPU
        return get_total_norm(tensors, norm_type=math.inf).isfinite()
    return torch.stack([bound.float() for tensor in tensors for bound in tensor.aminmax()]).isfinite().all()


@dataclass
class Plateau:
    """A factor of the learning rates, which is divided by 5 when progress stops, as in pix2pix.

    patience: Number of epochs without progress before the division. Progress means a metric below 99 % of the best.
    """

    patience: int = 5
    factor: float = 1.0
    best: float = math.inf
    bad_epochs: int = 0

    def update(self, metric: float) -> None:
        """Record the metric of an epoch. Lower is better."""
        if metric < self.best * 0.99:
            self.best, self.bad_epochs = metric, 0
            return
        self.bad_epochs += 1
        if self.bad_epochs > self.patience:
            self.factor, self.bad_epochs = self.factor * 0.2, 0

    def state_dict(self) -> dict[str, float]:
        """Return the factor, the best metric and the number of epochs without progress."""
        return {"factor": self.factor, "best": self.best, "bad_epochs": self.bad_epochs}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Load the state that `state_dict` returned."""
        self.factor, self.best, self.bad_epochs = state["factor"], state["best"], int(state["bad_epochs"])


STEP_EPOCHS = 50  # pix2pix


@dataclass(frozen=True)
class LearningRateSchedule:
    """Sets the learning rates of optimizer groups. Discriminators can have their own rate.

    settings: Initial rates, and the decay. All rates are multiplied by a factor, which depends on the decay:
        linear: 1 for constant_epochs + 1 epochs, then falling to 1/decay_epochs in the last epoch (pix2pixHD).
        linear_pix2pix: 1 for constant_epochs epochs, then falling to 1/(decay_epochs + 1) in the last epoch (pix2pix).
        step: divided by 10 after every 50 epochs.
        cosine: half a cosine wave that falls from 1 to 0 over all epochs (Loshchilov & Hutter 2017, without restarts).
        plateau: `plateau.factor`. The field `plateau` is None for other decays.
    """

    settings: OptimizerConfig
    constant_epochs: int
    decay_epochs: int
    plateau: Plateau | None = None

    def factor(self, epoch: int) -> float:
        """Return the factor of all rates in `epoch`, which counts from 0."""
        decayed = epoch - self.constant_epochs
        match self.settings.decay:
            case "linear":
                return 1.0 if decayed <= 0 else 1.0 - decayed / self.decay_epochs
            case "linear_pix2pix":
                return 1.0 - max(0, decayed + 1) / (self.decay_epochs + 1)
            case "step":
                return float(0.1 ** (epoch // STEP_EPOCHS))
            case "cosine":
                return 0.5 * (1.0 + math.cos(math.pi * epoch / (self.constant_epochs + self.decay_epochs)))
            case "plateau":
                assert self.plateau is not None
                return self.plateau.factor

    def apply(self, optimizers: Mapping[str, OptimizerGroup], epoch: int) -> None:
        """Set the learning rates for `epoch`."""
        factor, rate, own = self.factor(epoch), self.settings.learning_rate, self.settings.discriminator_learning_rate
        for group in optimizers.values():
            group.set_learning_rate(factor * (own if group.role == "discriminator" and own is not None else rate))


CHECKED_EVERY_STEPS = 10  # a check waits for the device
MAX_SKIPPED = 10  # skipped updates in a row; a single bad batch does not cause this many
MAX_SKIPPED_SCALED = 50  # limit for float16, because GradScaler skips updates until it finds a scale


def are_finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether no floating-point tensor holds NaN or infinity. This waits for the device."""
    checks = [tensor.isfinite().all() for tensor in tensors if tensor.is_floating_point()]
    return not checks or bool(torch.stack([check.cpu() for check in checks]).all())


@dataclass
class SkippedUpdates:
    """Watches for too many skipped updates in a row.

    recent_names: Names of the samples of the latest steps.
    """

    optimizers: Mapping[str, OptimizerGroup]
    recent_names: deque[str] = field(default_factory=lambda: deque(maxlen=CHECKED_EVERY_STEPS))

    def error(self, step: int) -> UserError | None:
        """Return the error that ends the run if too many updates were skipped. This waits for the device."""
        for name, group in self.optimizers.items():
            has_scale, in_a_row = group.scaler.is_enabled(), int(group.skipped_in_a_row)
            scale = group.scaler.get_scale()
            if in_a_row < (MAX_SKIPPED_SCALED if has_scale else MAX_SKIPPED) and not (has_scale and scale < 1):
                continue
            how = f" The loss scale has fallen to {scale:g}." if has_scale else ""
            return UserError(
                f"step {step}: gradients of the {name} were not finite {in_a_row} times in a row, and these updates "
                f"were skipped.{how} The latest samples: {', '.join(self.recent_names)}. Lower "
                "optimizer.learning_rate, or use amp.opt_level=O0."
            )
        return None
