"""From a configuration to the parts of a run, and from these to its loop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.optim.swa_utils import AveragedModel

from configs import build
from configs.load import config_to_dict
from configs.schema import Config
from data.batch import Sample
from data.fingerprint import fingerprint
from data.layout import Layout, check_enough
from data.loader import TrainingDataset, read_fixed_samples
from data.preprocessing import Preprocessing
from training.average_statistics import AverageStatistics, build_average_statistics
from training.best import BestScore, check_best, compared_figures
from training.checkpointing import CheckpointManager
from training.ema import make_average
from training.freezing import Freezing
from training.loop_state import LoopState
from training.lr_schedule import LearningRateSchedule, Plateau
from training.measured_ranges import FindCheckpoint, settle_pixels
from training.methods import METHODS
from training.methods.method import Method
from training.run_state import RunState
from training.splits import Splits, open_splits
from training.validation import Validation
from utils.distributed import World


@dataclass(frozen=True)
class Training:
    """The parts of a run, before it starts; nothing is written yet.

    validation: None on other processes than the main one.
    """

    config: Config
    world: World
    folder: Path
    splits: Splits
    preprocessing: Preprocessing
    method: Method
    run_state: RunState
    validation: Validation | None
    schedule: LearningRateSchedule
    freezing: Freezing
    checkpoints: CheckpointManager

    @property
    def layout(self) -> Layout:
        """The samples that are trained on."""
        return self.splits.train

    @property
    def total_steps(self) -> int:
        """The step at which the run is finished."""
        state = self.run_state.loop
        batches_to_go = max(self.config.total_epochs * state.batches_per_epoch - state.batches, 0)
        steps = state.step + -(-batches_to_go // self.config.batches_per_step)
        return min(steps, self.config.train.max_steps or steps)

    def dataset(self, layout: Layout) -> TrainingDataset:
        """Return the samples as they are trained on, read from `layout` or from a cache of it."""
        return TrainingDataset(layout, self.preprocessing, self.config.run.seed, self.config.data.on_bad_sample)


def run_folder(config: Config) -> Path:
    """Return where a run's files go."""
    return Path(config.run.root).expanduser() / config.run.name


def build_training(config: Config, world: World, find_checkpoint: FindCheckpoint = lambda: None) -> Training:
    """Build everything and check the data; nothing is written yet.

    find_checkpoint: as for `settle_pixels`, by which the configuration is completed.

    Raises:
        UserError, OSError: a setting, the data or a weights file cannot be used.
    """
    config, splits = settle_pixels(config, open_splits(config), world, find_checkpoint)
    layout = splits.train
    joint_batch_size = config.train.batch_size * world.size
    check_enough(layout, joint_batch_size)
    loop_state = LoopState(len(layout) // joint_batch_size, joint_batch_size)
    samples = read_validation_samples(config, splits) if world.is_main else []
    check_best(config, world.gather(len(samples))[0])
    method = METHODS[config.method.name](config, world)
    averages = make_averages(method, config.train.ema_decay)
    own_gpus = [world.device] if world.device.type == "cuda" else []
    with torch.random.fork_rng(own_gpus):  # networks of metrics draw weights before they load theirs
        validation = method.build_validation(config, world, splits, samples, loop_state, averages)
    schedule, figures = build_schedule(config, method), compared_figures(config, method.progress)
    run_state = RunState(
        world=world,
        settings=config_to_dict(config),
        fingerprint=fingerprint(layout) if world.is_main else None,
        loop=loop_state,
        method=method,
        averages=averages,
        average_statistics=build_statistics(config, world, layout, method, averages),
        plateau=schedule.plateau,
        best=BestScore(config.checkpoint.best),
        measured_on={figure: validation.digest(figure) for figure in figures} if validation else {},
    )
    folder, settings = run_folder(config), config.checkpoint
    training = Training(
        config=config,
        world=world,
        folder=folder,
        splits=splits,
        preprocessing=build.build_preprocessing(config),
        method=method,
        run_state=run_state,
        validation=validation,
        schedule=schedule,
        freezing=build_freezing(config, method),
        checkpoints=CheckpointManager(folder, world, run_state, every_steps=settings.every_steps, keep=settings.keep),
    )
    training.freezing.apply(loop_state.epoch)
    return training


def read_validation_samples(config: Config, splits: Splits) -> list[Sample]:
    """Read the samples of each validation."""
    layout = splits.open_validation(config)
    preprocessing = build.build_preprocessing(config)
    return read_fixed_samples(layout, preprocessing, config.n_validation_samples, config.data.on_bad_sample)


def make_averages(method: Method, decay: float) -> dict[str, AveragedModel]:
    """Return an average of each network that translates, by its name; none where the decay is 0."""
    names = {translator.network for translator in method.translators.values()} if decay else set()
    return {name: make_average(network.module, decay) for name, network in method.networks.items() if name in names}


def build_statistics(
    config: Config, world: World, layout: Layout, method: Method, averages: Mapping[str, AveragedModel]
) -> list[AverageStatistics]:
    """Return what estimates the statistics of the averages that have batch norm."""
    conditionings = {translator.network: translator.conditioning for translator in method.translators.values()}
    found = [
        build_average_statistics(config, world, layout, method.precision, average, conditionings[name])
        for name, average in averages.items()
    ]
    return [statistics for statistics in found if statistics]


def build_schedule(config: Config, method: Method) -> LearningRateSchedule:
    """Return the schedule of the learning rates; discriminators may have a rate of their own."""
    settings, train = config.optimizer, config.train
    own = settings.discriminator_learning_rate
    rate_of_discriminators = settings.learning_rate if own is None else own
    is_plateau = settings.decay == "plateau"
    return LearningRateSchedule(
        rates={
            name: rate_of_discriminators if group.role == "discriminator" else settings.learning_rate
            for name, group in method.optimizers.items()
        },
        decay="linear" if settings.decay == "plateau" else settings.decay,
        constant_epochs=train.epochs,
        decay_epochs=train.decay_epochs,
        step_epochs=settings.step_epochs,
        plateau=Plateau(settings.plateau_epochs) if is_plateau else None,
    )


def build_freezing(config: Config, method: Method) -> Freezing:
    """Return what freezes parts of the networks."""
    train = config.train
    coarse_parts: dict[str, Sequence[str]] = {}
    if train.freeze_global_epochs:
        modules = {name: network.module for name, network in method.networks.items()}
        coarse_parts = {name: getattr(module, "coarse_parts", ()) for name, module in modules.items()}
    return Freezing(
        networks=method.networks,
        always={"generator": train.freeze_generator, "discriminator": train.freeze_discriminator},
        coarse_parts=coarse_parts,
        coarse_epochs=train.freeze_global_epochs,
    )
