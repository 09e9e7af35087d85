"""The lines that are printed before a run starts: its networks, data, steps, and settings without effect."""

from contextlib import suppress

from configs import build
from configs.rules import unused_settings
from configs.schema import Config
from configs.splits import HELD_BACK, TRAIN, cached_split, has_split, open_split
from data.batch import DataError, Sample
from data.cache import room
from data.checks.checking import label_maps, palette_problems
from data.files.image_files import count_other_files
from data.layout import Layout
from data.loader import SampleKey
from data.validation_split import groups_of, possible_shares, shared_groups
from losses import registered_weights
from training.disk_space import size
from training.run import LoopState, Training
from training.splits import Splits
from training.trained_network import TrainedNetwork
from utils.text import counted, exact, listed

CHECKED_SAMPLES = 100  # label maps of each split
LISTED_CLASSES = 40
USUAL_SHARE = 0.05  # a good train.validation_share


def describe(training: Training) -> list[str]:
    """Return lines on the networks, the data and the length of a run.

    Raises:
        ConfigError, DataError: The samples cannot be used.
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
    """Compare the palettes of up to CHECKED_SAMPLES label maps of each split.

    Raises:
        DataError: Palettes differ.
    """
    if not splits.train.n_classes or config.data.label_colors:  # colours are the same in any palette
        return
    layouts = [splits.train, *([] if splits.validation_name == TRAIN else [splits.validation])]
    test_split = config.data.test_split
    if test_split not in (TRAIN, splits.validation_name) and has_split(config, test_split):
        with suppress(DataError):  # its other problems do not matter for training
            layouts.append(open_split(config, test_split, needs_targets=False))
    problems = palette_problems(path for layout in layouts for path in label_maps(layout, CHECKED_SAMPLES))
    if problems:
        raise DataError(*problems)


def _describe_epoch(state: LoopState) -> str:
    if state.steps_per_epoch:
        return f"{counted(state.steps_per_epoch, 'step')} count as an epoch"
    return f"{counted(state.batches_per_epoch, 'batch', 'batches')} an epoch"


def _describe_samples(layout: Layout, first: Sample) -> str:
    """Return the number of samples and the size of the first pair, or both for each domain without pairs."""
    images = [first.source] if first.target is None else [first.source, first.target]
    sizes = [f"{image.shape[-1]}x{image.shape[-2]}" for image in images]
    if len(layout.sides) == 1:
        return f"{counted(len(layout), 'sample')}, the first is {first.name} {' -> '.join(dict.fromkeys(sizes))}"
    sides = zip(layout.sides, ("source", "target"), sizes, strict=True)
    return " and ".join(f"{counted(len(side), kind)}, the first is {size}" for side, kind, size in sides)


def _describe_classes(config: Config) -> list[str]:
    """Return a line on the names of the classes, or nothing if they have no names."""
    table = build.data_facts(config).classes
    if table is None:
        return []
    how = " by colours" if config.data.label_colors else ""
    return [f"classes        {len(table.names)}{how}: {listed(table.names, LISTED_CLASSES)}"]


def _describe_weights(config: Config) -> list[str]:
    """Return a line on the weights of pixels, or nothing if all weigh the same."""
    loss = config.loss
    parts = [f"maps of {config.data.weight_folder}"] if config.data.has_weight_maps else []
    parts += [f"{name} {exact(weight)}" for name, weight in loss.class_weights.items()][:LISTED_CLASSES]
    are_trained = any((loss.l1, loss.feature_matching, loss.vgg, loss.outside_mask))
    where = "" if are_trained else "; of metrics alone: loss.l1, loss.feature_matching and loss.vgg are 0"
    return [f"weights        {', '.join(parts)}{where}"] if parts else []


def _describe_losses() -> list[str]:
    """Return a line on the registered losses, or nothing without any."""
    losses = ", ".join(f"{name} {exact(weight)}" for name, weight in registered_weights().items())
    return [f"losses         {losses}, registered"] if losses else []


def _describe_cache(training: Training, index: int) -> list[str]:
    """Return a line on the cache, and on its size if all samples are as large as sample `index`."""
    cached = cached_split(training.config, training.layout, training.folder)
    if cached is None:
        return []
    line = f"cache          {training.config.data.cache}"
    with suppress(DataError):  # the picture of the other domain is a bad one
        needed, free = map(size, room(cached, index))
        line += f", about {needed} for all samples, {free} free"
    return [line]


def _samples_of_step(config: Config, n_processes: int) -> str:
    """Return the number of samples of a step, and its factors."""
    batch_size, n_batches = config.train.batch_size, config.batches_per_step
    batches = f"{n_batches} x batch {batch_size}" if n_batches > 1 else f"batch {batch_size}"
    where = counted(n_processes, "process", "processes")
    return f"{counted(n_batches * batch_size * n_processes, 'sample')} ({batches} on {where})"


def _count_parameters(network: TrainedNetwork) -> str:
    n_parameters = sum(parameter.numel() for parameter in network.module.parameters())
    n_trained = sum(parameter.numel() for parameter in network.parameters)
    return f"{n_parameters:>12,} parameters{f', {n_trained:,} of them trained' if n_trained < n_parameters else ''}"


def describe_validation(config: Config, splits: Splits, n_samples: int) -> list[str]:
    """Return lines on the validation samples, with warnings if their figures would mislead."""
    share, best = config.train.validation_share, config.checkpoint.best
    line = f"validation     {counted(n_samples, 'sample')} of {splits.validation_name}"
    if splits.validation_name == HELD_BACK:
        names = {"training": splits.train.names, "held-back": splits.validation.names}
        alike = [] if config.train.validation_group else [f"warning        {text}" for text in shared_groups(names)]
        return [
            f"validation     {n_samples} of {counted(len(splits.validation), 'training sample')} held back by "
            f"train.validation_share={exact(share)}{_groups(config, splits)}",
            *alike,
        ]
    if splits.validation_name != TRAIN:
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


def _groups(config: Config, splits: Splits) -> str:
    """Return the number of held-back groups and of all groups, or nothing without train.validation_group."""
    pattern = config.train.validation_group
    if pattern is None:
        return ""
    held, rest = (len(set(groups_of(layout.names, pattern))) for layout in (splits.validation, splits.train))
    return f", {held} of {held + rest} groups of train.validation_group={pattern}"
