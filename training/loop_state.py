"""How far a run has come."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass
class LoopState:
    """How far a run has come.

    batches_per_epoch: joint batches, those of all processes together, that an epoch has.
    joint_batch_size: samples of such a batch.
    step: updates made. batches: joint batches taken from the data.
    """

    batches_per_epoch: int
    joint_batch_size: int
    step: int = 0
    batches: int = 0

    @property
    def epoch(self) -> int:
        """The epoch of the next step, from 0."""
        return self.batches // self.batches_per_epoch

    def state_dict(self) -> dict[str, int]:
        """Return the position as a checkpoint holds it: independent of batch size and number of processes."""
        epoch, batches = divmod(self.batches, self.batches_per_epoch)
        return {"step": self.step, "epoch": epoch, "samples_into_epoch": batches * self.joint_batch_size}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned, with whatever batch size; TypeError where a value is no whole number."""
        if not all(isinstance(state[key], int) for key in self.state_dict()):
            raise TypeError("its step or its place in the data is no number")
        # not more than an epoch holds, should the data set have become smaller
        batches_into_epoch = min(state["samples_into_epoch"] // self.joint_batch_size, self.batches_per_epoch)
        self.step = state["step"]
        self.batches = state["epoch"] * self.batches_per_epoch + batches_into_epoch

    def start_epoch(self, epoch: int) -> None:
        """Move to the beginning of an epoch."""
        self.batches = epoch * self.batches_per_epoch
