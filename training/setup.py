"""From a configuration to the parts of a run, and from these to its loop."""

import shutil
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from torch.optim.swa_utils import AveragedModel

from configs import build, sample_cache
from configs.image_sides import discriminated_side
from configs.label_maps import legend
from configs.load import config_to_dict
from configs.schema import Config
from configs.stored_images import target_dtype
from data.batch import Batch, Sample
from data.device_transfer import DeviceTransfer
from data.fingerprint import fingerprint
from data.layout import Layout, check_enough
from data.loader import TrainingDataset, read_fixed_samples, training_batches
from data.preprocessing import Preprocessing
from data.sampler import TrainingSampler
from inference.predictor import Predictor
from metrics.evaluator import Evaluator
from models.feature_encoder import FeatureConditionedGenerator
from models.local_enhancer import LocalEnhancer
from models.style_encoder import predicting_part
from training.augmentation_setup import build_controller
from training.average_statistics import build_average_statistics
from training.batches import BatchReader
from training.best import BestScore, check_best, compared_figures
from training.checkpointing import CheckpointManager
from training.ema import make_average
from training.freezing import Freezing
from training.graceful_stop import GracefulStop
from training.loop import TrainingLoop
from training.lr_schedule import LearningRateSchedule, Plateau
from training.measured_ranges import FindCheckpoint, settle_pixels
from training.profiler import Profiler
from training.run_log import RunLog
from training.run_state import LoopState, RunState
from training.splits import Splits, open_splits
from training.throughput import Throughput
from training.update import AdversarialUpdate
from training.update_setup import build_step, build_update
from training.validation import Validation, check_module
from training.validation_logits import ValidationLogits
from utils.distributed import World
from utils.errors import ConfigError


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
    update: AdversarialUpdate
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
    evaluator = build.build_evaluator(config, world.device) if world.is_main else None
    update = build_update(config, world)
    average = make_average(update.generator.module, config.train.ema_decay) if config.train.ema_decay else None
    schedule = build_schedule(config)
    validation = None
    if evaluator:
        validation = build_validation(config, splits.validation, samples, evaluator, update, average)
    run_state = RunState(
        world=world,
        settings=config_to_dict(config),
        fingerprint=fingerprint(layout) if world.is_main else None,
        loop=loop_state,
        update=update,
        average=average,
        plateau=schedule.plateau,
        best=BestScore(config.checkpoint.best),
        controller=build_controller(config, world, splits, loop_state, update, validation),
        average_statistics=build_average_statistics(config, world, layout, update.precision, average),
        measured_on={figure: validation.digest(figure) for figure in compared_figures(config)} if validation else {},
    )
    folder, settings = run_folder(config), config.checkpoint
    training = Training(
        config=config,
        world=world,
        folder=folder,
        splits=splits,
        preprocessing=build.build_preprocessing(config),
        update=update,
        run_state=run_state,
        validation=validation,
        schedule=schedule,
        freezing=build_freezing(config, update),
        checkpoints=CheckpointManager(folder, world, run_state, every_steps=settings.every_steps, keep=settings.keep),
    )
    training.freezing.apply(loop_state.epoch)
    return training


@contextmanager
def open_loop(training: Training, stop: GracefulStop) -> Iterator[TrainingLoop]:
    """Open the loop of a run that continues at its present state, with its data, its log and its profiler."""
    config, world, state = training.config, training.world, training.run_state.loop
    folder, total, validation = training.folder if world.is_main else None, training.total_steps, training.validation
    classes = legend(config.data, validation.evaluator.label_colors if validation else None)
    can_draw = build.build_conditioning(config).further_channels == 0
    log = RunLog(folder, state.step + 1, total, config.loss.gan_mode, classes, can_draw=can_draw)
    statistics, throughput = training.run_state.average_statistics, Throughput()
    if statistics:
        statistics.read()
    profiler = Profiler(training.folder / "trace.json.gz", config.train.profile_steps if world.is_main else 0)
    with ExitStack() as stack:
        stack.enter_context(_temporary_cache(training))
        stack.enter_context(log)
        stream = stack.enter_context(closing(read_batches(training, stop)))
        stack.enter_context(closing(profiler))
        yield TrainingLoop(
            world=world,
            state=state,
            total_steps=training.total_steps,
            batches=BatchReader(
                stream=stream,
                transfer=DeviceTransfer(world.device, has_stream=config.train.async_upload),
                throughput=throughput,
                discriminator_steps=config.train.discriminator_steps,
                accumulation_steps=config.train.accumulation_steps,
            ),
            update=training.update,
            step=build_step(config, training.update),
            average=training.run_state.average,
            average_statistics=statistics,
            schedule=training.schedule,
            freezing=training.freezing,
            checkpoints=training.checkpoints,
            validation=training.validation,
            controller=training.run_state.controller,
            log=log,
            throughput=throughput,
            profiler=profiler,
            report_every_steps=config.log.every_steps,
            validate_every_steps=config.log.images_every_steps,
            batches_per_step=config.batches_per_step,
        )


def read_batches(training: Training, stop: GracefulStop) -> Generator[Batch]:
    """Return the endless stream of batches from the present position on; it ends its wait where `stop` says so."""
    config, world = training.config, training.world
    sampler = TrainingSampler(
        n_samples=len(training.layout),
        batch_size=config.train.batch_size,
        seed=config.run.seed,
        rank=world.rank,
        world_size=world.size,
        first_batch=training.run_state.loop.batches,
    )
    return training_batches(
        training.dataset(sample_cache.build_training_layout(config, training.layout, training.folder)),
        sampler,
        n_workers=build.count_workers(config.data, world.local_size),
        pin_memory=world.device.type == "cuda",
        prefetch=config.data.prefetch,
        timeout_s=config.data.timeout_s,
        should_stop=lambda: stop.poll() != 0,
    )


@contextmanager
def _temporary_cache(training: Training) -> Iterator[None]:
    """Remove what data.cache=memory holds when the run ends; files that another process still reads go with it."""
    try:
        yield
    finally:
        folder = sample_cache.cache_folder(training.config, training.folder)
        if folder and training.config.data.cache == "memory":
            shutil.rmtree(folder, ignore_errors=True)


def read_validation_samples(config: Config, splits: Splits) -> list[Sample]:
    """Read the samples of each validation."""
    layout = splits.open_validation(config)
    preprocessing = build.build_preprocessing(config)
    return read_fixed_samples(layout, preprocessing, config.n_validation_samples, config.data.on_bad_sample)


def build_validation(
    config: Config,
    split: str,
    samples: list[Sample],
    evaluator: Evaluator,
    update: AdversarialUpdate,
    average: AveragedModel | None,
) -> Validation:
    """Return the validation, of the average where there is one.

    Raises:
        ConfigError: the generator has no module of the name that log.activations gives.
    """
    predictor = Predictor(
        generator=predicting_part(average.module if average else update.generator.module),
        conditioning=build.build_conditioning(config),
        precision=update.precision,
        device=update.device,
        colors=build.class_colors(config.data),
        target_dtype=target_dtype(config.data),
        show_channels=config.log.show_channels,
    )
    try:
        check_module(predictor.generator, config.log.activations)
    except ValueError as error:
        raise ConfigError(f"log.activations: {error}") from error
    logits = ValidationLogits(
        discriminator=update.discriminator.compute_copy,
        augmentation=update.augmentation,
        conditioning=predictor.conditioning,
        precision=update.precision,
        device=update.device,
        min_side=discriminated_side(config),
    )
    return Validation(
        split,
        samples,
        predictor,
        evaluator,
        logits,
        n_shown=config.log.n_images,
        activations=config.log.activations,
        histograms={name: network.module for name, network in update.networks.items()} if config.log.histograms else {},
        is_of_average=average is not None,
    )


def build_schedule(config: Config) -> LearningRateSchedule:
    """Return the schedule of the learning rates."""
    settings, train = config.optimizer, config.train
    rate = settings.discriminator_learning_rate
    is_plateau = settings.decay == "plateau"
    return LearningRateSchedule(
        generator=settings.learning_rate,
        discriminator=settings.learning_rate if rate is None else rate,
        decay="linear" if settings.decay == "plateau" else settings.decay,
        constant_epochs=train.epochs,
        decay_epochs=train.decay_epochs,
        step_epochs=settings.step_epochs,
        plateau=Plateau(settings.plateau_epochs) if is_plateau else None,
    )


def build_freezing(config: Config, update: AdversarialUpdate) -> Freezing:
    """Return what freezes parts of the networks."""
    train, generator = config.train, update.generator.module
    coarse_parts: list[str] = []
    if train.freeze_global_epochs:
        assert isinstance(generator, LocalEnhancer | FeatureConditionedGenerator), type(generator)
        coarse_parts = generator.coarse_parts
    return Freezing(
        networks=update.networks,
        always={"generator": train.freeze_generator, "discriminator": train.freeze_discriminator},
        coarse_parts=coarse_parts,
        coarse_epochs=train.freeze_global_epochs,
    )
