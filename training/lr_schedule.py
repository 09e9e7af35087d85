"""Learning rate: a pure function of the epoch, or of the progress made."""

import math
from dataclasses import asdict, dataclass
from typing import Literal

Decay = Literal["linear", "linear_pix2pix", "step", "cosine"]


def learning_rate_factor(
    decay: Decay, epoch: int, *, constant_epochs: int, decay_epochs: int, step_epochs: int
) -> float:
    """Factor of the learning rate in `epoch`, from 0.

    linear: 1 for constant_epochs and one more, then falling to 1/decay_epochs in the last epoch (pix2pixHD, which
        lowers the rate at the end of an epoch).
    linear_pix2pix: 1 for constant_epochs, then falling to 1/(decay_epochs + 1) in the last epoch (pix2pix).
    step: a tenth after every step_epochs.
    cosine: from 1 along half a wave, to 0 at the end of all epochs (Loshchilov & Hutter 2017, without restarts).
    """
    decayed = epoch - constant_epochs
    match decay:
        case "linear":
            return 1.0 if decayed <= 0 else 1.0 - decayed / decay_epochs
        case "linear_pix2pix":
            return 1.0 - max(0, decayed + 1) / (decay_epochs + 1)
        case "step":
            return float(0.1 ** (epoch // step_epochs))
        case "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * epoch / (constant_epochs + decay_epochs)))


@dataclass
class Plateau:
    """Factor of the learning rate that falls to a fifth when progress stops, by pix2pix's numbers.

    patience: epochs without progress that are borne; progress is a metric 1 % below the best.
    """

    patience: int
    factor: float = 1.0
    best: float = math.inf
    bad_epochs: int = 0

    def update(self, metric: float) -> None:
        """Take note of an epoch's metric, which is to fall."""
        if metric < self.best * 0.99:
            self.best, self.bad_epochs = metric, 0
            return
        self.bad_epochs += 1
        if self.bad_epochs > self.patience:
            self.factor, self.bad_epochs = self.factor * 0.2, 0

    def state_dict(self) -> dict[str, float]:
        """What changes."""
        state = asdict(self)
        del state["patience"]
        return state

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go on from what `state_dict` gave."""
        self.factor, self.best, self.bad_epochs = state["factor"], state["best"], int(state["bad_epochs"])
