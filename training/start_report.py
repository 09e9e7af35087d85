"""The lines that are printed before a run starts: its networks, data, steps, and settings without effect."""

from contextlib import suppress

from configs import build
from configs.schema import Config
from configs.splits import TRAIN, cached_split, has_split, open_split
from configs.unused_settings import unused_settings
from data.batch import DataError, Sample
from data.cache import room
from data.checks.checking import label_maps, palette_problems
from data.files.image_files import count_other_files
from data.held_back import groups_of, possible_shares, shared_beginnings, suggested_setting
from data.layout import Layout
from data.loader import SampleKey
from losses import registered_weights
from training.disk_space import size
from training.run_data import LoopState, Splits
from training.run_state import Training
from training.trained_network import TrainedNetwork
from utils.text import counted, exact, listed

CHECKED_SAMPLES = 100  # of each split, whose palettes are compared
LISTED_CLASSES = 40
USUAL_SHARE = 0.05  # of train.validation_share


def describe(training: Training) -> list[str]:
    """Return lines on what the run trains, on which data, and for how long.

    Raises:
        ConfigError, DataError: the samples cannot be used.
    """
    config, world, state = training.config, training.world, training.loop
    validation = training.validation
    check_palettes(config, training.splits)
    others = count_other_files(training.layout.folders) if world.is_main else ""
    sample = training.dataset(training.layout)[SampleKey(epoch=0, index=0)]
    if isinstance(sample, Exception):
        raise sample
    counts = [f"{name:<14} {_count_parameters(network)}" for name, network in training.method.networks.items()]
    precision = training.method.precision
    dtype = str(precision.compute_dtype).removeprefix("torch.")
    unused = unused_settings(config)
    return [
        f"run            {training.folder}",
        *counts,
        f"data           {_describe_samples(training.layout, sample)}",
        *build.data_facts(config).describe_pixels(),
        *_describe_classes(config),
        *_describe_weights(config),
        *_describe_losses(),
        *([f"left out       files of other formats: {others}"] if others else []),
        *_describe_cache(training, training.layout.names.index(sample.name)),
        *(describe_validation(config, training.splits, len(validation.samples)) if validation else []),
        *(validation.describe() if validation else []),
        f"plan           step {state.step} to {training.total_steps}, each of {_samples_of_step(config, world.size)}; "
        f"{_describe_epoch(state)}, {counted(config.total_epochs, 'epoch')}",
        f"device         {world.device}, {counted(world.size, 'process', 'processes')}, {dtype}",
        *(["slow           float16 on a CPU: amp.dtype=auto"] if precision.is_slow else []),
        *([f"without effect {', '.join(unused)}"] if unused else []),
    ]


def check_palettes(config: Config, splits: Splits) -> None:
    """Raise DataError where label maps have different palettes, in CHECKED_SAMPLES samples of each split.

    Raises:
        DataError: palettes differ, or the validation split cannot be used.
    """
    if not splits.train.n_classes or config.data.label_colors:  # colours are the same in any palette
        return
    layouts = [splits.train]
    if splits.validation != TRAIN:
        layouts.append(splits.open_validation(config))
    test_split = config.data.test_split
    if test_split not in (TRAIN, splits.validation) and has_split(config, test_split):
        with suppress(DataError):  # its other problems are not those of a training
            layouts.append(open_split(config, test_split, needs_targets=False))
    problems = palette_problems(path for layout in layouts for path in label_maps(layout, CHECKED_SAMPLES))
    if problems:
        raise DataError(*problems)


def _describe_epoch(state: LoopState) -> str:
    if state.steps_per_epoch:
        return f"{counted(state.steps_per_epoch, 'step')} count as an epoch"
    return f"{counted(state.batches_per_epoch, 'batch', 'batches')} an epoch"


def _describe_samples(layout: Layout, first: Sample) -> str:
    """Return number and size of the samples, of each side where there are two; that of a target if it is another."""
    images = [first.source] if first.target is None else [first.source, first.target]
    sizes = [f"{image.shape[-1]}x{image.shape[-2]}" for image in images]
    if len(layout.sides) == 1:
        return f"{counted(len(layout), 'sample')}, the first is {first.name} {' -> '.join(dict.fromkeys(sizes))}"
    sides = zip(layout.sides, ("source", "target"), sizes, strict=True)
    return " and ".join(f"{counted(len(side), kind)}, the first is {size}" for side, kind, size in sides)


def _describe_classes(config: Config) -> list[str]:
    """Return the names of the classes; nothing where they have none."""
    table = build.data_facts(config).classes
    if table is None:
        return []
    how = " by colours" if config.data.label_colors else ""
    return [f"classes        {len(table.names)}{how}: {listed(table.names, LISTED_CLASSES)}"]


def _describe_weights(config: Config) -> list[str]:
    """Return the weights of pixels; nothing where all weigh the same."""
    loss = config.loss
    parts = [f"maps of {config.data.weight_folder}"] if config.data.has_weight_maps else []
    parts += [f"{name} {exact(weight)}" for name, weight in loss.class_weights.items()][:LISTED_CLASSES]
    are_trained = any((loss.l1, loss.feature_matching, loss.vgg, loss.outside_mask))
    where = "" if are_trained else "; of metrics alone: loss.l1, loss.feature_matching and loss.vgg are 0"
    return [f"weights        {', '.join(parts)}{where}"] if parts else []


def _describe_losses() -> list[str]:
    """Return the registered losses; nothing if there are none."""
    losses = ", ".join(f"{name} {exact(weight)}" for name, weight in registered_weights().items())
    return [f"losses         {losses}, registered"] if losses else []


def _describe_cache(training: Training, index: int) -> list[str]:
    """Return what samples take in the cache, if all are as large as sample `index`; nothing where there is no cache.

    It holds some of them already where a run goes on: they all may fit although less than that is free.
    """
    cached = cached_split(training.config, training.layout, training.folder)
    if cached is None:
        return []
    line = f"cache          {training.config.data.cache}"
    with suppress(DataError):  # the picture of the other side is a bad one
        needed, free = map(size, room(cached, index))
        line += f", about {needed} for all samples, {free} free"
    return [line]


def _samples_of_step(config: Config, n_processes: int) -> str:
    """Return the number of samples, and what it is the product of."""
    batch_size, n_batches = config.train.batch_size, config.batches_per_step
    batches = f"{n_batches} x batch {batch_size}" if n_batches > 1 else f"batch {batch_size}"
    where = counted(n_processes, "process", "processes")
    return f"{counted(n_batches * batch_size * n_processes, 'sample')} ({batches} on {where})"


def _count_parameters(network: TrainedNetwork) -> str:
    n_parameters = sum(parameter.numel() for parameter in network.module.parameters())
    n_trained = sum(parameter.numel() for parameter in network.parameters)
    return f"{n_parameters:>12,} parameters{f', {n_trained:,} of them trained' if n_trained < n_parameters else ''}"


def describe_validation(config: Config, splits: Splits, n_samples: int) -> list[str]:
    """Return lines on the validation samples, with warnings where their figures would mislead."""
    share, best = config.train.validation_share, config.checkpoint.best
    line = f"validation     {counted(n_samples, 'sample')} of {splits.validation}"
    if splits.held_back:
        return [
            f"validation     {n_samples} of {counted(len(splits.held_back), 'training sample')} held back by "
            f"train.validation_share={exact(share)}{_groups(config, splits.train, splits.held_back)}",
            *([] if config.train.validation_group else _shared(splits.train, splits.held_back)),
        ]
    if splits.validation != TRAIN:
        return [f"{line}; train.validation_share has no effect" if share else line]
    least, most = possible_shares(splits.train)
    remedy = "add a split val"
    if least <= most:
        remedy += f", or hold samples back: train.validation_share={exact(max(USUAL_SHARE, least))}"
    if config.data.validation_split:
        remedy = "name another data.validation_split, or leave it out"
    return [
        f"{line}, which are trained on: {remedy}",
        *([] if best in ("auto", "none") else [f"warning        checkpoint.best={best} chooses by training samples"]),
    ]


def _groups(config: Config, train: Layout, held_back: Layout) -> str:
    """Return how many groups are held back, of how many; empty without train.validation_group."""
    pattern = config.train.validation_group
    if pattern is None:
        return ""
    held, rest = (len(set(groups_of(layout.names, pattern))) for layout in (held_back, train))
    each = ": each sample is one" if held + rest == len(held_back) + len(train) else ""
    return f", {held} of {held + rest} groups of train.validation_group={pattern}{each}"


def _shared(train: Layout, held_back: Layout) -> list[str]:
    """Return a warning where names of both sides begin alike, as the slices of a patient do."""
    shared = shared_beginnings(train.names, held_back.names)
    if not shared:
        return []
    (ours, theirs), *others = shared
    more = f", and {counted(len(others), 'other beginning')}" if others else ""
    return [
        f"warning        training and held-back names begin alike: {ours} and {theirs}{more}; if these are of one "
        f"patient or scene, {suggested_setting(ours)} keeps them on one side"
    ]
