"""From a configuration to the parts of a run."""

import torch

from configs import build
from configs.build import check_trained_sizes
from configs.schema import Config
from data.batch import Sample
from data.fingerprint import fingerprint
from data.layout import check_enough
from data.loader import read_fixed_samples
from training.averages import make_averages
from training.best import BestScore, Patience, best_figure, check_best
from training.lr_schedule import LearningRateSchedule, Plateau
from training.methods import METHODS
from training.run_data import LoopState, open_data
from training.run_state import Training
from training.trained_network import freeze_parts
from utils.checkpoint_folder import LoadedCheckpoint
from utils.distributed import World


def build_training(config: Config, world: World, found: LoadedCheckpoint | None = None) -> Training:
    """Build everything and check the data; nothing is written or loaded yet.

    found: the checkpoint that the run will resume from, which has the ranges of images where `config` has none.

    Raises:
        UserError, OSError: a setting, the data or a weights file cannot be used.
    """
    config, splits = open_data(config, found)
    layout = splits.train
    joint_batch_size = config.train.batch_size * world.size
    check_enough(layout, joint_batch_size)
    loop_state = LoopState(
        len(layout) // joint_batch_size, joint_batch_size, steps_per_epoch=config.train.steps_per_epoch
    )
    preprocessing, samples = build.build_preprocessing(config), list[Sample]()
    check_trained_sizes(config)
    if world.is_main:
        n_samples, on_bad_sample = config.metrics.n_samples, config.data.on_bad_sample
        samples = read_fixed_samples(splits.open_validation(config), preprocessing, n_samples, on_bad_sample)
    check_best(config, world.gather(len(samples))[0])
    method = METHODS[config.method.name](config, world)
    averages = make_averages(method, config.train.ema_decay)
    own_gpus = [world.device] if world.device.type == "cuda" else []
    with torch.random.fork_rng(own_gpus):  # networks of metrics draw weights before they load theirs
        validation = method.build_validation(config, splits.validation, samples, averages) if world.is_main else None
    best = best_figure(config, splits.validation, method.progress)
    compared = [best] * (best != "none") + [method.progress] * (config.optimizer.decay == "plateau")
    freeze_parts(method.networks, config.train, loop_state.epoch)
    return Training(
        config=config,
        world=world,
        splits=splits,
        preprocessing=preprocessing,
        loop=loop_state,
        method=method,
        averages=averages,
        schedule=LearningRateSchedule(
            config.optimizer,
            constant_epochs=config.train.epochs,
            decay_epochs=config.train.decay_epochs,
            plateau=Plateau() if config.optimizer.decay == "plateau" else None,
        ),
        best=BestScore(best),
        patience=Patience(BestScore(best), config.train.patience),
        validation=validation,
        fingerprint=fingerprint(layout) if world.is_main else None,
        measured_on={figure: validation.digest(figure) for figure in compared} if validation else {},
    )
