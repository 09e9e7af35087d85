"""Lines that are printed before a run starts: its networks, data, steps, and settings without effect."""

from contextlib import suppress

from configs import build
from configs.rules import unused_settings
from configs.schema import Config
from configs.splits import HELD_BACK, TRAIN, cached_split, has_split, open_split, translated_split
from data.batch import DataError, Sample
from data.cache import room
from data.files.image_files import count_other_files
from data.layout import Layout
from data.loader import SampleKey
from data.map_reader import label_maps, palette_problems
from data.validation_split import groups_of, shared_groups
from losses import registered_weights
from training.run import Splits, Training
from training.run_folder import size
from utils.text import counted, exact, listed

CHECKED_SAMPLES = 100  # label maps of each split
LISTED_CLASSES = 40
USUAL_SHARE = 0.05  # a good train.validation_share


def describe(training: Training) -> list[str]:
    """Return lines on the networks, the data and the length of a run."""
    config, world, state, validation = training.config, training.world, training.loop, training.validation
    layout, loss, facts = training.splits.train, config.loss, build.data_facts(config)
    check_palettes(config, training.splits)
    sample = training.dataset()[SampleKey(epoch=0, index=0)]
    if isinstance(sample, Exception):
        raise sample
    lines = [f"run            {training.folder}"]
    for name, network in training.method.networks.items():
        n_parameters = sum(parameter.numel() for parameter in network.module.parameters())
        n_trained = sum(parameter.numel() for parameter in network.parameters)
        trained = f", {n_trained:,} of them trained" if n_trained < n_parameters else ""
        lines.append(f"{name:<14} {n_parameters:>12,} parameters{trained}")
    lines += [f"data           {_describe_samples(layout, sample)}", *facts.describe_pixels()]
    if facts.classes:
        names, how = facts.classes.names, " by colours" if config.data.label_colors else ""
        lines.append(f"classes        {len(names)}{how}: {listed(names, LISTED_CLASSES)}")
    weights = [f"maps of {config.data.weight_folder}"] if config.data.has_weight_maps else []
    weights += [f"{name} {exact(weight)}" for name, weight in loss.class_weights.items()][:LISTED_CLASSES]
    if weights:
        are_trained = any((loss.l1, loss.feature_matching, loss.vgg, loss.outside_mask))
        where = "" if are_trained else "; only in metrics, because loss.l1, loss.feature_matching and loss.vgg are 0"
        lines.append(f"weights        {', '.join(weights)}{where}")
    if losses := registered_weights():
        lines.append(f"losses         {', '.join(f'{n} {exact(weight)}' for n, weight in losses.items())}, registered")
    if others := count_other_files(layout.folders) if world.is_main else "":
        lines.append(f"left out       files of other formats: {others}")
    if cached := cached_split(config, layout, training.folder):
        lines.append(f"cache          {config.data.cache}")
        with suppress(DataError):  # the other image of an unpaired sample cannot be read
            needed, free = map(size, room(cached, layout.names.index(sample.name)))
            lines[-1] += f", about {needed} for all samples, {free} free"
    if validation:
        lines += [*describe_validation(config, training.splits, len(validation.samples)), *validation.describe()]
    batch_size, n_batches = config.train.batch_size, config.batches_per_step
    batches = f"{n_batches} x batch {batch_size}" if n_batches > 1 else f"batch {batch_size}"
    processes = counted(world.size, "process", "processes")
    n_samples, per_epoch = n_batches * batch_size * world.size, state.steps_per_epoch
    epoch = f"{counted(state.batches_per_epoch, 'batch', 'batches')} an epoch"
    epoch = f"{counted(per_epoch, 'step')} count as an epoch" if per_epoch else epoch
    lines.append(
        f"plan           step {state.step} to {training.total_steps}, each of {counted(n_samples, 'sample')} "
        f"({batches} on {processes}); {epoch}, {counted(config.total_epochs, 'epoch')}"
    )
    precision = training.method.precision
    lines.append(f"device         {world.device}, {processes}, {str(precision.compute_dtype).removeprefix('torch.')}")
    lines += ["slow           float16 on a CPU: amp.dtype=auto"] if precision.is_slow else []
    unused = unused_settings(config)
    return lines + ([f"without effect {', '.join(unused)}"] if unused else [])


def check_palettes(config: Config, splits: Splits) -> None:
    """Raise DataError if the palettes of up to CHECKED_SAMPLES label maps of each split differ."""
    if not splits.train.n_classes or config.data.label_colors:  # classes by colours do not depend on the palette
        return
    layouts = [splits.train, *([] if splits.validation_name == TRAIN else [splits.validation])]
    test_split = translated_split(config)
    if test_split not in (TRAIN, splits.validation_name) and has_split(config, test_split):
        with suppress(DataError):  # its other problems do not matter for training
            layouts.append(open_split(config, test_split, needs_targets=False))
    problems = palette_problems(path for layout in layouts for path in label_maps(layout, CHECKED_SAMPLES))
    if problems:
        raise DataError(*problems)


def _describe_samples(layout: Layout, first: Sample) -> str:
    """Return the number of samples and the size of the first pair, or both for each domain without pairs."""
    images = [first.source] if first.target is None else [first.source, first.target]
    sizes = [f"{image.shape[-1]}x{image.shape[-2]}" for image in images]
    if len(layout.sides) == 1:
        return f"{counted(len(layout), 'sample')}, the first is {first.name} {' -> '.join(dict.fromkeys(sizes))}"
    sides = zip(layout.sides, ("source", "target"), sizes, strict=True)
    return " and ".join(f"{counted(len(side), kind)}, the first is {size}" for side, kind, size in sides)


def describe_validation(config: Config, splits: Splits, n_samples: int) -> list[str]:
    """Return lines on the validation samples, with warnings if their figures may mislead."""
    share, best = config.train.validation_share, config.checkpoint.best
    line = f"validation     {counted(n_samples, 'sample')} of {splits.validation_name}"
    if splits.validation_name == HELD_BACK:
        names = {"training": splits.train.names, "held-back": splits.validation.names}
        line = f"validation     {n_samples} of {counted(len(splits.validation), 'training sample')} held back by "
        line += f"train.validation_share={exact(share)}"
        if (pattern := config.train.validation_group) is None:
            return [line, *(f"warning        {text}" for text in shared_groups(names))]
        rest, held = (len(set(groups_of(of_split, pattern))) for of_split in names.values())
        return [f"{line}, {held} of {held + rest} groups of train.validation_group={pattern}"]
    if splits.validation_name != TRAIN:
        return [f"{line}; train.validation_share has no effect" if share else line]
    remedy = f"add a split val, or hold samples back: train.validation_share={USUAL_SHARE}"
    if config.data.validation_split:
        remedy = "name another data.validation_split, or leave it out"
    return [
        f"{line}, which are training samples. To change this, {remedy}.",
        *([] if best in ("auto", "none") else [f"warning        checkpoint.best={best} depends on training samples"]),
    ]
