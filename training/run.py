"""A training run: its parts, its progress, and its state in a checkpoint."""

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from configs import build
from configs.build import check_trained_sizes
from configs.load import config_from_dict, config_to_dict
from configs.schema import Config
from configs.splits import TRAIN, Splits, check_is_complete, open_splits
from data.batch import Batch, DataError, Sample
from data.layout import Layout
from data.loader import TrainingDataset, fingerprint, read_fixed_samples
from data.preprocessing import Preprocessing
from losses import registered_record
from metrics import METRICS
from models.spectral_norm import settle_spectral_norm
from models.style_encoder import inference_network
from training.averages import estimate_statistics, make_averages
from training.methods import METHODS
from training.methods.method import Averages, Method
from training.optimizer_group import LearningRateSchedule, Plateau, are_finite
from training.trained_network import freeze_parts
from training.validation import BestScore, Patience, Validation
from utils.checkpoint_folder import LoadedCheckpoint
from utils.distributed import LONGEST_WAIT_S, World, joined_world
from utils.errors import UserError
from utils.files import expanded
from utils.log import log_to_console, logger
from utils.text import counted


def run_folder(config: Config) -> Path:
    """Return the folder for the files of a run."""
    return expanded(config.run.root, "run.root") / config.run.name


_training = threading.Lock()  # only one run at a time, because threads share torch's random generators


@contextmanager
def joined(config: Config) -> Iterator[World]:
    """Connect the processes of a run. Only the main process logs. Raise UserError if this process already trains."""
    peer_timeout_s = min(3 * config.data.timeout_s or LONGEST_WAIT_S, LONGEST_WAIT_S)
    if not _training.acquire(blocking=False):
        raise UserError(f"run {config.run.name}: this process trains another run. Train each run in its own process.")
    try:
        with joined_world(config.run.device, peer_timeout_s) as world:
            log_to_console(world.is_main)
            yield world
    finally:
        _training.release()


@dataclass
class LoopState:
    """The progress of a run.

    batches_per_epoch: Number of joint batches (one batch of each process) in a pass through the data.
    joint_batch_size: Number of samples in a joint batch.
    step: Number of updates so far.
    batches: Number of joint batches read so far.
    steps_per_epoch: Number of steps in an epoch of the schedule. None: An epoch is a pass through the data.
    """

    batches_per_epoch: int
    joint_batch_size: int
    step: int = 0
    batches: int = 0
    steps_per_epoch: int | None = None

    @property
    def epoch(self) -> int:
        """Epoch of the next step in the learning rate schedule. The first epoch is 0."""
        return math.floor(self._epochs)

    @property
    def n_started_epochs(self) -> int:
        """Epoch of the latest step in the learning rate schedule. The first epoch is 1."""
        return math.ceil(self._epochs)

    @property
    def _epochs(self) -> float:
        return self.step / self.steps_per_epoch if self.steps_per_epoch else self.batches / self.batches_per_epoch

    def last_step(self, n_epochs: int, batches_per_step: int) -> int:
        """Return the step that ends epoch number `n_epochs` of the schedule."""
        if self.steps_per_epoch:
            return n_epochs * self.steps_per_epoch
        batches_to_go = max(n_epochs * self.batches_per_epoch - self.batches, 0)
        return self.step + math.ceil(batches_to_go / batches_per_step)

    def state_dict(self) -> dict[str, int]:
        """Return the progress, in numbers that do not depend on the batch size and the number of processes."""
        epoch, batches = divmod(self.batches, self.batches_per_epoch)
        return {"step": self.step, "epoch": epoch, "samples_into_epoch": batches * self.joint_batch_size}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the progress from `state_dict`. The batch size may have changed."""
        # the data set may have become smaller
        batches_into_epoch = min(state["samples_into_epoch"] // self.joint_batch_size, self.batches_per_epoch)
        self.step = state["step"]
        self.batches = state["epoch"] * self.batches_per_epoch + batches_into_epoch


@dataclass
class Training:
    """A training run. Only the main process has `validation`, `fingerprint` and `measured_on`.

    averages: Moving averages of the generators' weights, by network name.
    fingerprint: Digests of the training samples.
    measured_on: Digests of the validation samples and the protocol, for the metrics of `best` and the plateau schedule.
    statistics_batches: Batches to estimate the batch norm statistics of `averages`, read before step 1.
    estimated_step: Step of the latest estimate of the batch norm statistics.
    continues: Whether to continue the run in `folder`. If False, the run in `folder` is archived.
    saved_step: Step of the latest checkpoint in `folder`.
    changes: Text about settings and registered losses that differ from the resumed checkpoint and affect results.
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
    continues: bool = False
    saved_step: int = 0
    changes: str = ""

    @property
    def folder(self) -> Path:
        """The folder for the run's files."""
        return run_folder(self.config)

    @property
    def planned_steps(self) -> int:
        """The last step of the schedule."""
        return self.loop.last_step(self.config.total_epochs, self.config.batches_per_step)

    @property
    def total_steps(self) -> int:
        """The last step of the run, which train.max_steps can limit."""
        return min(self.planned_steps, self.config.train.max_steps or self.planned_steps)

    def dataset(self, cache: Layout | None = None) -> TrainingDataset:
        """Return the training samples with their augmentation, read from `cache` if there is one."""
        config, layout = self.config, cache or self.splits.train
        return TrainingDataset(layout, self.preprocessing, config.run.seed, config.data.on_bad_sample)

    @property
    def n_bytes(self) -> int:
        """Approximate size of a checkpoint in bytes: weights, Adam's two moments, averages."""
        networks = self.method.networks
        weights = sum(network.n_weight_bytes for network in networks.values())
        return 3 * weights + sum(networks[name].n_weight_bytes for name in self.averages)

    def update_averages(self) -> None:
        """Update the averages with the current weights."""
        for name, average in self.averages.items():
            average.update_parameters(self.method.networks[name].module)

    def estimate_statistics(self) -> None:
        """Estimate the batch norm statistics of the averages. All processes must call this."""
        if self.statistics_batches and self.estimated_step != self.loop.step:
            estimate_statistics(self.method, self.averages, self.statistics_batches)
            self.estimated_step = self.loop.step

    def prepare_averages(self) -> None:
        """Prepare the averages for translation. All processes must call this.

        The spectral norm vectors and batch norm statistics of the trained network do not fit averaged weights.
        """
        self.estimate_statistics()
        for average in self.averages.values():
            settle_spectral_norm(inference_network(average.module))

    def process_state(self) -> dict[str, Any]:
        """Return the part of a checkpoint that belongs to this process."""
        random, device = {"cpu": torch.get_rng_state()}, self.world.device
        if device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(device)
        return {
            "random_states": random,
            "method_of_processes": self.method.process_state(),
            "means_of_processes": self.method.means.state(),
        }

    def state_dict(self, processes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return everything that is needed to continue as if the run had never stopped.

        processes: Results of `process_state`, by rank.

        Raise UserError if weights, moments or an average are not finite.
        """
        method = self.method
        tensors = {name: [*network.module.state_dict().values()] for name, network in method.networks.items()}
        for name, group in method.optimizers.items():
            tensors.setdefault(name, []).extend(group.moments)
        broken = [f"the {name}" for name, values in tensors.items() if not are_finite(values)]
        broken += ["the average" for average in self.averages.values() if not are_finite(average.state_dict().values())]
        if broken:
            raise UserError(
                f"step {self.loop.step}: {' and '.join(broken)} is not finite and is not saved. Earlier checkpoints "
                "are kept. Lower optimizer.learning_rate, or use amp.opt_level=O0."
            )
        return {
            **self.loop.state_dict(),
            "config": config_to_dict(self.config),
            "networks": {name: network.module.state_dict() for name, network in method.networks.items()},
            "optimizers": {name: group.state_dict() for name, group in method.optimizers.items()},
            "averages": {name: average.state_dict() for name, average in self.averages.items()},
            "method": method.state_dict(),
            **{key: [process[key] for process in processes] for key in processes[0]},
            "data": self.fingerprint,
            "n_samples": len(self.splits.train),
            **({"plateau": self.schedule.plateau.state_dict()} if self.schedule.plateau else {}),
            **registered_record(),
            **({"best": self.best.value} if self.best.value is not None else {}),
            "patience": [self.patience.value, self.patience.n_without],
            "measured_on": dict(self.measured_on),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the result of `state_dict`, except `best` and `patience`. The number of processes may have changed.

        Parts that the checkpoint lacks start as in a new run. A missing average starts with the network's weights.
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
            logger.info("train.pool_size: image pools start empty, because the run had %d processes", len(of_processes))
        if len(means := state.get("means_of_processes", [])) == self.world.size:
            self.method.means.load_state(means[rank], self.world.device)
        if rank < len(state["random_states"]):
            random = state["random_states"][rank]
            torch.set_rng_state(random["cpu"])
            if self.world.device.type == "cuda" and "cuda" in random:  # checkpoints from a CPU have no such state
                torch.cuda.set_rng_state(random["cuda"], self.world.device)


def build_training(config: Config, world: World, found: LoadedCheckpoint | None = None) -> Training:
    """Build a run and check its data, without writing a file or loading a checkpoint's weights.

    found: Checkpoint that the run will resume. Value ranges that `config` lacks are copied from the checkpoint, because
        earlier versions measured the ranges and saved them.
    """
    if found:
        saved = config_from_dict(found.state.get("config"), str(found.path)).data
        missing = [
            name for name in ("source_range", "target_range", "target_files") if getattr(config.data, name) is None
        ]
        config = replace(config, data=replace(config.data, **{name: getattr(saved, name) for name in missing}))
    splits, train = open_splits(config), config.train
    if not found:
        check_is_complete(config, splits.train)
    joint_batch_size = train.batch_size * world.size
    if (n_samples := len(splits.train)) < joint_batch_size:
        raise DataError(
            f"the train split has {counted(n_samples, 'sample')}, fewer than train.batch_size x processes = "
            f"{joint_batch_size}. Lower train.batch_size."
        )
    loop = LoopState(n_samples // joint_batch_size, joint_batch_size, steps_per_epoch=train.steps_per_epoch)
    preprocessing, samples = build.build_preprocessing(config), list[Sample]()
    check_trained_sizes(config)
    if world.is_main:
        settings = config.metrics.n_samples, config.data.on_bad_sample
        samples = read_fixed_samples(splits.validation, preprocessing, *settings)
    method = METHODS[config.method.name](config, world)
    best = best_figure(config, splits.validation_name, method.progress, world.gather(len(samples))[0])
    averages = make_averages(method, train.ema_decay)
    validation = None
    if world.is_main:
        # building the networks of metrics draws random numbers, which must not change the training
        with torch.random.fork_rng([world.device] if world.device.type == "cuda" else []):
            validation = build_validation(config, method, splits.validation_name, samples, averages)
    plateau = Plateau() if config.optimizer.decay == "plateau" else None
    compared = [best] * (best != "none") + [method.progress] * (plateau is not None)
    freeze_parts(method.networks, train, loop.epoch)
    return Training(
        config=config,
        world=world,
        splits=splits,
        preprocessing=preprocessing,
        loop=loop,
        method=method,
        averages=averages,
        schedule=LearningRateSchedule(config.optimizer, train.epochs, train.decay_epochs, plateau),
        best=BestScore(best),
        patience=Patience(best, limit=train.patience),
        validation=validation,
        fingerprint=fingerprint(splits.train) if world.is_main else None,
        measured_on={figure: validation.digest(figure) for figure in compared} if validation else {},
    )


def build_validation(
    config: Config, method: Method, split: str, samples: Sequence[Sample], averages: Averages
) -> Validation:
    """Return the validation on samples of a split. It uses the averages if there are any."""
    evaluator = build.build_evaluator(config, method.device, len(samples))
    of_sources = evaluator if config.method.declaration.pairs else build.source_evaluator(config, evaluator)
    shared = {"split": split, "samples": samples, "evaluator": evaluator, "activations": config.log.activations}
    return method.build_validation(averages, of_sources, **shared)


def best_figure(config: Config, split: str, progress: str, n_samples: int) -> str:
    """Return the metric that selects the best checkpoint, or "none" if no best checkpoint is kept.

    split: Split of the validation samples.
    progress: Metric of the training method, for checkpoint.best=auto.
    n_samples: Number of validation samples.

    Raise ConfigError if the run does not measure checkpoint.best, or if train.patience is set without a metric.
    """
    best, facts, measured = config.checkpoint.best, build.data_facts(config), build.measured_metrics(config)
    has_weights = config.data.has_weight_maps or bool(facts.conditioning.class_weights)
    kinds = {"images": True, "weighted": has_weights, "values": not facts.conditioning.target_is_rgb}
    kinds |= {"weighted values": kinds["weighted"] and kinds["values"], "labels": bool(config.metrics.label_colors)}
    kinds["shifted"] = config.measured_shift_reach > 0
    possible = [
        name
        for name, metric in METRICS.items()
        if kinds[metric.of] and metric.least_images <= n_samples and (not metric.is_optional or name in measured)
    ]
    expected = f"a metric that this run measures: {', '.join(possible)}"
    config.require(best not in METRICS or best in possible, "checkpoint.best", expected)
    figure = best if best != "auto" else "none" if split == TRAIN else progress
    expected = "null without a best checkpoint. Set checkpoint.best, or train.validation_share=0.05"
    config.require(config.train.patience is None or figure != "none", "train.patience", expected)
    return figure
