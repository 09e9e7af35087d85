"""The learning rates: a pure function of the epoch, or of the progress made."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from configs.schema import OptimizerConfig
from training.optimizer_group import OptimizerGroup


@dataclass
class Plateau:
    """The factor of a learning rate that falls to a fifth when progress stops, by pix2pix's numbers.

    patience: epochs without progress before it falls; progress is a metric 1 % below the best.
    """

    patience: int = 5
    factor: float = 1.0
    best: float = math.inf
    bad_epochs: int = 0

    def update(self, metric: float) -> None:
        """Record an epoch's metric. Lower is better."""
        if metric < self.best * 0.99:
            self.best, self.bad_epochs = metric, 0
            return
        self.bad_epochs += 1
        if self.bad_epochs > self.patience:
            self.factor, self.bad_epochs = self.factor * 0.2, 0

    def state_dict(self) -> dict[str, float]:
        """Return what changes."""
        return {"factor": self.factor, "best": self.best, "bad_epochs": self.bad_epochs}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Load what `state_dict` returned."""
        self.factor, self.best, self.bad_epochs = state["factor"], state["best"], int(state["bad_epochs"])


STEP_EPOCHS = 50  # pix2pix


@dataclass(frozen=True)
class LearningRateSchedule:
    """Sets the learning rates of optimizer groups; discriminators may have one of their own.

    settings: the rates before the decay, and the decay, of a factor of all rates:
        linear: 1 for constant_epochs and one more, then falling to 1/decay_epochs in the last epoch (pix2pixHD, which
            lowers the rate at the end of an epoch).
        linear_pix2pix: 1 for constant_epochs, then falling to 1/(decay_epochs + 1) in the last epoch (pix2pix).
        step: a tenth after every 50 epochs.
        cosine: half a wave from 1 to 0 at the end of all epochs (Loshchilov & Hutter 2017, without restarts).
        plateau: the factor of `plateau`, which follows progress; `plateau` is None with another decay.
    """

    settings: OptimizerConfig
    constant_epochs: int
    decay_epochs: int
    plateau: Plateau | None = None

    def factor(self, epoch: int) -> float:
        """Return the factor of all rates in `epoch`, from 0."""
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
        """Set the rates of `epoch`."""
        factor, rate, own = self.factor(epoch), self.settings.learning_rate, self.settings.discriminator_learning_rate
        for group in optimizers.values():
            group.learning_rate = factor * (own if group.role == "discriminator" and own is not None else rate)
