"""The state of a run between two steps: everything that a checkpoint holds, and how it is restored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from training.augmentation_controller import AugmentationController
from training.average_statistics import AverageStatistics
from training.best import BestScore
from training.finite import NotFiniteError, are_finite
from training.lr_schedule import Plateau
from training.random_state import restore_random_state
from training.update import AdversarialUpdate
from utils.distributed import World


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


@dataclass
class RunState:
    """The stateful parts of a run.

    settings: the configuration as nested dicts. fingerprint: of the training split; None on other processes than the
    main one. average, plateau, controller, average_statistics: None where the run has none.
    measured_on: digests of what the figures of `best` and `plateau` are measured on, by figure; none on other processes
        than the main one.
    """

    world: World
    settings: Mapping[str, Any]
    fingerprint: Tensor | None
    loop: LoopState
    update: AdversarialUpdate
    average: AveragedModel | None
    plateau: Plateau | None
    best: BestScore
    controller: AugmentationController | None = None
    average_statistics: AverageStatistics | None = None
    measured_on: Mapping[str, str] = field(default_factory=dict)

    @property
    def needed_keys(self) -> list[str]:
        """The keys that every checkpoint has."""
        return [*self.loop.state_dict(), *self.update.networks, "random_states", "config"]

    @property
    def n_bytes(self) -> int:
        """Bytes of a checkpoint, about: weights, Adam's two moments, the average."""
        weights = sum(network.n_weight_bytes for network in self.update.networks.values())
        return 3 * weights + (self.update.generator.n_weight_bytes if self.average else 0)

    def prepare(self) -> None:
        """Bring the average's statistics to its weights before a save, together with the other processes."""
        if self.average_statistics:
            self.average_statistics.estimate(self.loop.step)

    def state_dict(self, random_states: Sequence[Mapping[str, Tensor]]) -> dict[str, Any]:
        """Return everything that is needed to continue as if never stopped.

        random_states: those of all processes, by rank.

        Raises:
            NotFiniteError: weights, moments or the average are not finite.
        """
        self._require_finite()
        update = self.update
        return {
            **self.loop.state_dict(),
            "config": self.settings,
            **{name: network.state_dict() for name, network in update.networks.items()},
            "random_states": list(random_states),
            "data": self.fingerprint,
            **({"generator_average": self.average.state_dict()} if self.average else {}),
            **({"pool": update.pool.state_dict()} if update.pool else {}),
            **({"plateau": self.plateau.state_dict()} if self.plateau else {}),
            **({"augmentation": self.controller.state_dict()} if self.controller else {}),
            **({"best": self.best.value} if self.best.value is not None else {}),
            "measured_on": dict(self.measured_on),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned, whatever the number of processes that wrote it; `best` stays as it is.

        A part that the checkpoint lacks starts as in a new run; an average starts from the generator's weights.
        """
        self.loop.load_state_dict(state)
        update = self.update
        for name, network in update.networks.items():
            network.load_state_dict(state[name])
        if self.average:
            self.average.module.load_state_dict(state["generator"]["network"])
            self.average.load_state_dict(state.get("generator_average", self.average.state_dict()))
        if self.plateau and "plateau" in state:
            self.plateau.load_state_dict(state["plateau"])
        if self.controller and "augmentation" in state:
            self.controller.load_state_dict(state["augmentation"])
        if update.pool:
            update.pool.load_state_dict(state.get("pool", []), self.world.device)
        if self.world.rank < len(state["random_states"]):
            restore_random_state(state["random_states"][self.world.rank], self.world.device)

    def _require_finite(self) -> None:
        broken = [name for name, network in self.update.networks.items() if not network.is_finite()]
        broken += ["average"] if self.average and not are_finite(self.average.state_dict().values()) else []
        if broken:
            raise NotFiniteError(
                f"step {self.loop.step}: the {' and the '.join(broken)} is not finite and is not saved; earlier "
                "checkpoints stay. Lower optimizer.learning_rate, or use amp.opt_level=O0"
            )
