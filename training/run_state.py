"""A run between two steps: its parts, what of them a checkpoint holds, and how that is restored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from configs.load import config_to_dict
from configs.schema import Config
from data.batch import Batch
from data.layout import Layout
from data.loader import TrainingDataset
from data.preprocessing import Preprocessing
from losses import registered_record
from models.spectral_norm import settle_spectral_norm
from models.style_encoder import inference_network
from training.averages import estimate_statistics
from training.best import BestScore, Patience
from training.lr_schedule import LearningRateSchedule
from training.methods.method import Averages, Method
from training.optimizer_group import NotFiniteError, are_finite
from training.run_data import LoopState, Splits
from training.run_folder import run_folder
from training.validation import Validation
from utils.distributed import World
from utils.log import logger


class ProcessState(NamedTuple):
    """The state that each process has of its own.

    random: States of its random generators. of_method: See `Method.process_state`. means: See `RunningMeans.state`.
    """

    random: Mapping[str, Tensor]
    of_method: Mapping[str, Any] = {}
    means: Sequence[Any] = ()


@dataclass
class Training:
    """A run in memory.

    method: the way to train, with the networks.
    averages: of the weights of what translates, by the network's name; none where the run keeps none.
    schedule: of the learning rates, whose plateau is saved.
    validation, fingerprint: the latter is of the training split; None on other processes than the main one.
    measured_on: digests of what the figures of `best` and the plateau are measured on, by figure; none on other
        processes than the main one.
    statistics_batches: of samples from which the running statistics of averages are estimated, from the beginning of
        the loop on; none where no average has batch norm. estimated_step: that of the latest estimate.
    saved_step: Step of the latest checkpoint of the run in its folder.
    changes: Settings and registered losses that matter for results and differ from the restored checkpoint, as text.
    """

    config: Config
    world: World
    splits: Splits
    preprocessing: Preprocessing
    loop: LoopState
    method: Method
    averages: Averages
    schedule: LearningRateSchedule
    best: BestScore
    patience: Patience
    validation: Validation | None
    fingerprint: Tensor | None
    measured_on: Mapping[str, str] = field(default_factory=dict)
    statistics_batches: Sequence[Batch] = ()
    estimated_step: int | None = None
    saved_step: int = 0
    changes: str = ""

    @property
    def folder(self) -> Path:
        """Where the run's files go."""
        return run_folder(self.config)

    @property
    def layout(self) -> Layout:
        """The samples that are trained on."""
        return self.splits.train

    @property
    def total_steps(self) -> int:
        """The step at which the run is finished."""
        steps = self.loop.last_step(self.config.total_epochs, self.config.batches_per_step)
        return min(steps, self.config.train.max_steps or steps)

    def dataset(self, layout: Layout) -> TrainingDataset:
        """Return the samples as they are trained on, read from `layout` or from a cache of it."""
        return TrainingDataset(layout, self.preprocessing, self.config.run.seed, self.config.data.on_bad_sample)

    @property
    def needed_keys(self) -> list[str]:
        """The keys that every checkpoint has."""
        networks = [f"networks.{name}" for name in self.method.networks]
        optimizers = [f"optimizers.{name}" for name in self.method.optimizers]
        return [*self.loop.state_dict(), *networks, *optimizers, "averages", "method", "random_states", "config"]

    @property
    def n_bytes(self) -> int:
        """Bytes of a checkpoint, about: weights, Adam's two moments, averages."""
        networks = self.method.networks
        weights = sum(network.n_weight_bytes for network in networks.values())
        return 3 * weights + sum(networks[name].n_weight_bytes for name in self.averages)

    def update_averages(self) -> None:
        """Pull the averages towards the present weights."""
        for name, average in self.averages.items():
            average.update_parameters(self.method.networks[name].module)

    def estimate_statistics(self) -> None:
        """Estimate the statistics of the averages for their present weights, together with the other processes."""
        if self.statistics_batches and self.estimated_step != self.loop.step:
            estimate_statistics(self.method, self.averages, self.statistics_batches)
            self.estimated_step = self.loop.step

    def prepare_averages(self) -> None:
        """Bring the averages to where they can translate, together with the other processes.

        They have copies of the network's vectors of spectral norm and of its statistics of batch norm, which do not
        belong to the averaged weights.
        """
        self.estimate_statistics()
        for average in self.averages.values():
            settle_spectral_norm(inference_network(average.module))

    def process_state(self) -> ProcessState:
        """Return what this process has of its own."""
        random, device = {"cpu": torch.get_rng_state()}, self.world.device
        if device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(device)
        return ProcessState(random, self.method.process_state(), self.method.means.state())

    def state_dict(self, processes: Sequence[ProcessState]) -> dict[str, Any]:
        """Return everything that is needed to continue as if never stopped.

        processes: the states of all processes, by rank.

        Raises:
            NotFiniteError: weights, moments or an average are not finite.
        """
        self._require_finite()
        method = self.method
        return {
            **self.loop.state_dict(),
            "config": config_to_dict(self.config),
            "networks": {name: network.module.state_dict() for name, network in method.networks.items()},
            "optimizers": {name: group.state_dict() for name, group in method.optimizers.items()},
            "averages": {name: average.state_dict() for name, average in self.averages.items()},
            "method": method.state_dict(),
            "random_states": [process.random for process in processes],
            "method_of_processes": [process.of_method for process in processes],
            "means_of_processes": [process.means for process in processes],
            "data": self.fingerprint,
            "n_samples": len(self.layout),
            **({"plateau": self.schedule.plateau.state_dict()} if self.schedule.plateau else {}),
            **registered_record(),
            **({"best": self.best.value} if self.best.value is not None else {}),
            "patience": [self.patience.best.value, self.patience.n_without],
            "measured_on": dict(self.measured_on),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned, whatever the number of processes that wrote it; `best` and `patience` stay.

        A part that the checkpoint lacks starts as in a new run; an average starts from its network's weights.
        """
        self.loop.load_state_dict(state)
        for name, network in self.method.networks.items():
            network.load_weights(state["networks"][name])
        for name, group in self.method.optimizers.items():
            group.load_state_dict(state["optimizers"][name])
        for name, average in self.averages.items():
            average.module.load_state_dict(state["networks"][name])
            average.load_state_dict(state["averages"].get(name, average.state_dict()))
        if self.schedule.plateau and "plateau" in state:
            self.schedule.plateau.load_state_dict(state["plateau"])
        self.method.load_state_dict(state["method"])
        rank, of_processes = self.world.rank, state.get("method_of_processes", [])
        if len(of_processes) == self.world.size:
            self.method.load_process_state(of_processes[rank])
        elif any(of_processes):
            logger.info("train.pool_size: the pools begin empty, since there were %d processes", len(of_processes))
        if len(means := state.get("means_of_processes", [])) == self.world.size:
            self.method.means.load_state(means[rank], self.world.device)
        if rank < len(state["random_states"]):
            random = state["random_states"][rank]
            torch.set_rng_state(random["cpu"])
            if self.world.device.type == "cuda" and "cuda" in random:  # a run on a CPU has saved none
                torch.cuda.set_rng_state(random["cuda"], self.world.device)

    def _require_finite(self) -> None:
        tensors = {name: [*network.module.state_dict().values()] for name, network in self.method.networks.items()}
        for name, group in self.method.optimizers.items():
            tensors.setdefault(name, []).extend(group.moments)
        broken = [f"the {name}" for name, values in tensors.items() if not are_finite(values)]
        broken += ["the average" for average in self.averages.values() if not are_finite(average.state_dict().values())]
        if broken:
            raise NotFiniteError(
                f"step {self.loop.step}: {' and '.join(broken)} is not finite and is not saved; earlier "
                "checkpoints stay. Lower optimizer.learning_rate, or use amp.opt_level=O0"
            )
