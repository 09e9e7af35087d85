"""The plan that is printed before training (networks, data, steps, settings without effect), and --dry-run.

--dry-run also prints the layers of the networks, and the memory and time of the run. It writes and downloads nothing.
"""

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from configs import build
from configs.rules import unused_settings
from configs.schema import Config
from configs.splits import HELD_BACK, TRAIN, Splits, cached_split, has_split, open_split, translated_split
from data.batch import Batch, DataError, Sample
from data.cache import room
from data.files.image_files import count_other_files
from data.layout import Layout
from data.loader import BadSamples, SampleKey
from data.map_reader import label_maps, palette_problems
from data.validation_split import groups_of, shared_groups
from data.volume_checks import volume_warnings
from losses import registered_weights
from losses.perceptual import PERCEPTUAL_LOSSES
from metrics import METRICS, with_features
from metrics.metric import FeatureSource, PairMetric, SetMetric
from training.cuda_graph import WARM_UP_STEPS, make_step
from training.methods.method import Method
from training.resume import ResumeOptions, find_checkpoint_together, start
from training.run import Training, build_training, joined, run_folder
from training.run_folder import check_space, size
from utils.log import logger
from utils.pretrained import PretrainedFile
from utils.text import counted, exact, listed

CHECKED_SAMPLES = 100  # how many training samples are checked, and how many label maps of each split
LISTED_CLASSES = 40


def describe(training: Training) -> list[str]:
    """Return lines about the networks, the data and the length of a run."""
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
    weights = [f"maps of {config.data.weight_folder or config.data.mask_folder}"] if config.data.has_weight_maps else []
    weights += [f"{name} {exact(weight)}" for name, weight in loss.class_weights.items()][:LISTED_CLASSES]
    if weights:
        lines.append(f"weights        {', '.join(weights)}")
    if losses := registered_weights():
        lines.append(f"losses         {', '.join(f'{n} {exact(weight)}' for n, weight in losses.items())}, registered")
    if others := count_other_files(layout.folders) if world.is_main and not config.data.has_volumes else "":
        lines.append(f"left out       files of other formats: {others}")
    lines += [f"{head:<14} {text}" for side in layout.sides for head, text in side.notes]
    own = {TRAIN: layout, training.splits.validation_name: training.splits.validation}
    own.pop(HELD_BACK, None)  # these patients belong to the split train
    found = volume_warnings(own, config.data.axis, config.data.source_range, config.data.target_range)
    lines += [f"warning        {warning}" for warning in found]
    if cached := cached_split(config, layout, training.folder):
        lines.append(f"cache          {config.data.cache}")
        with suppress(DataError):  # `room` can read a different target of unpaired data, and this file can be damaged
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
    lines += ["warning        float16 is slow on a CPU. Use amp.dtype=auto."] if precision.is_slow else []
    unused = unused_settings(config)
    return lines + ([f"without effect {', '.join(unused)}"] if unused else [])


def check_palettes(config: Config, splits: Splits) -> None:
    """Raise DataError if label maps have different palettes. This reads up to CHECKED_SAMPLES maps of each split."""
    if not splits.train.n_classes or config.data.label_colors:  # data.label_colors makes palettes irrelevant
        return
    layouts = [splits.train, *([] if splits.validation_name == TRAIN else [splits.validation])]
    test_split = translated_split(config)
    if test_split not in (TRAIN, splits.validation_name) and has_split(config, test_split):
        with suppress(DataError):  # other problems of the test split do not matter for training
            layouts.append(open_split(config, test_split, needs_targets=False))
    problems = palette_problems(path for layout in layouts for path in label_maps(layout, CHECKED_SAMPLES))
    if problems:
        raise DataError(*problems)


def _describe_samples(layout: Layout, first: Sample) -> str:
    """Return the number of samples and the size of the first pair. For unpaired data, describe each domain."""
    images = [first.source] if first.target is None else [first.source, first.target]
    sizes = [f"{image.shape[-1]}x{image.shape[-2]}" for image in images]
    if len(layout.sides) == 1:
        return f"{counted(len(layout), 'sample')}, the first is {first.name} {' -> '.join(dict.fromkeys(sizes))}"
    sides = zip(layout.sides, ("source", "target"), sizes, strict=True)
    return " and ".join(f"{counted(len(side), kind)}, the first is {size}" for side, kind, size in sides)


def describe_validation(config: Config, splits: Splits, n_samples: int) -> list[str]:
    """Return lines about the validation samples, with a warning if scores on these samples can mislead."""
    share, best = config.train.validation_share, config.checkpoint.best
    line = f"validation     {counted(n_samples, 'sample')} of {splits.validation_name}"
    if splits.validation_name == HELD_BACK:
        names = {"training": splits.train.names, "held-back": splits.validation.names}
        line = f"validation     {n_samples} of {counted(len(splits.validation), 'training sample')}, chosen by "
        line += f"train.validation_share={exact(share)}"
        if (pattern := config.train.validation_group) is None:
            return [line, *(f"warning        {text}" for text in shared_groups(names))]
        rest, held = (len(set(groups_of(of_split, pattern))) for of_split in names.values())
        return [f"{line}, {held} of {held + rest} groups of train.validation_group={pattern}"]
    if splits.validation_name != TRAIN:
        return [f"{line}; train.validation_share has no effect" if share else line]
    remedy = "add a split val, or remove data.validation_split and set train.validation_share=0.05"
    return [
        f"{line}, which are training samples. To change this, {remedy}.",
        *([] if best in ("auto", "none") else [f"warning        checkpoint.best={best} depends on training samples"]),
    ]


MOST_STEPS = 5
ENOUGH_S = 5  # timing ends after this many seconds


def dry_run(config: Config, options: ResumeOptions) -> None:
    """Check a run, and print its plan, layers, memory and time. Nothing is written or downloaded."""
    with joined(config) as world:
        build.prepare_device(config, world.device)
        found = find_checkpoint_together(run_folder(config), options.source, world)
        training = build_training(without_downloads(config), world, found)
        training.config = replace(config, data=training.config.data)
        initialized = start(training, found, options)
        check_space(training)
        missing = [file.announcement for file in downloads(config)]
        for line in [*describe(training), *initialized, *missing]:
            logger.info(line)
        begin_s = time.perf_counter()
        batch, n_checked = load_samples(training)
        loading_s = (time.perf_counter() - begin_s) / n_checked
        layers, n_kept_bytes = watch_pass(training.method, batch)
        n_samples = f"{n_checked} of {len(training.splits.train)} training samples"
        checked = f"checked        {n_samples}, the networks and the losses: no errors"
        memory = describe_memory(training, n_kept_bytes)
        for line in [*layers, *memory, checked, *describe_time(training, batch, loading_s)]:
            logger.info(line)


def load_samples(training: Training) -> tuple[Batch, int]:
    """Load up to CHECKED_SAMPLES training samples, spread over the data set.

    Return a batch of the first samples, on the device, and the number of loaded samples.
    """
    dataset, batch_size, n_samples = training.dataset(), training.config.train.batch_size, len(training.splits.train)
    indices = range(0, n_samples, -(-n_samples // max(CHECKED_SAMPLES, batch_size)))
    samples, bad_samples = list[Sample](), BadSamples(n_samples)
    for index in indices:
        loaded = dataset[SampleKey(epoch=0, index=index)]
        if isinstance(loaded, Exception):
            raise loaded
        bad_samples.add(loaded.replaces)
        samples += [loaded] if len(samples) < batch_size else []
    return Batch.of(samples).to(training.world.device), len(indices)


def watch_pass(method: Method, batch: Batch) -> tuple[list[str], int]:
    """Compute the losses of a training pass, and measure its layers and memory.

    Return a table of layers for each network, as lines, and the number of bytes that the backward passes need in
    addition to the weights. If a discriminator gets real and translated images in one pass, its table counts both.
    """
    modules = [network.module for network in method.networks.values()]
    known = {parameter.untyped_storage().data_ptr() for module in modules for parameter in module.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with ExitStack() as stack:
        stack.enter_context(torch.compiler.set_stance("force_eager"))  # compiled code runs no hooks
        layers = {n: stack.enter_context(watched_layers(one.compute_copy)) for n, one in method.networks.items()}
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor))
        losses = method.losses(method.inputs(batch))  # the losses keep all tensors alive until the bytes are summed
        n_bytes = sum(kept.values())
        del losses
    return [line for name, of_network in layers.items() for line in table(name, of_network)], n_bytes


def describe_memory(training: Training, n_kept_bytes: int) -> list[str]:
    """Return lines about the expected memory and the size of checkpoints.

    n_kept_bytes: Bytes that are kept for the backward passes of a batch.
    """
    networks, n_kept = training.method.networks.values(), training.config.checkpoint.keep or "all"
    weights = sum(network.n_weight_bytes for network in networks)
    gradients = sum(parameter.nbytes for network in networks for parameter in network.parameters)
    best = " and best.pt" if training.best.is_kept else ""
    return [
        f"memory         about {size(3 * weights + gradients + n_kept_bytes)}: {size(weights)} for weights, twice as "
        f"much for Adam, {size(gradients)} for gradients, {size(n_kept_bytes)} for the backward passes of a batch",
        f"checkpoint     about {size(training.n_bytes)} each; the run keeps {n_kept}{best}",
    ]


def describe_time(training: Training, batch: Batch, loading_s: float) -> list[str]:
    """Return a line about the time that the remaining steps need. This trains the networks for some steps.

    batch: Batch on the device.
    loading_s: Time to load a sample, in seconds.
    """
    config, n_steps = training.config, training.total_steps - training.loop.step
    if n_steps <= 0:
        return []
    computing_s = time_steps(training, batch)
    n_workers = build.count_workers(config.data, training.world.local_size)
    waiting_s = 0.0 if config.data.cache != "none" else loading_s * len(batch.names) * config.batches_per_step
    step_s = max(computing_s, waiting_s / n_workers) if n_workers else computing_s + waiting_s
    limit = ", most of it loading" if step_s > 2 * computing_s else ""
    duration = timedelta(seconds=max(1, round(n_steps * step_s)))
    return [f"time           about {duration} ({step_s:.2g} s a step{limit})"]


def time_steps(training: Training, batch: Batch) -> float:
    """Return the median time of a step with `batch`, in seconds. The first steps are slower and are not counted."""
    train, world = training.config.train, training.world
    batches = [[batch] * train.accumulation_steps] * train.discriminator_steps
    step, n_slower = make_step(training.method), 1
    if training.method.repeats_steps:
        n_slower += 4 * WARM_UP_STEPS + train.pool_size  # warm-up of up to four graphs, and steps that fill a pool
    durations_s: list[float] = []
    for number in range(n_slower + MOST_STEPS):
        training.method.begin_step(number, training.planned_steps)
        begin_s = time.perf_counter()
        step(batches)
        if world.device.type == "cuda":
            torch.cuda.synchronize(world.device)
        if number >= n_slower:
            durations_s.append(time.perf_counter() - begin_s)
            if world.all_reduce_max(int(sum(durations_s) > ENOUGH_S)):  # all processes stop after the same step
                break
    return statistics.median(durations_s)


class Layer(NamedTuple):
    """Facts about the first call of a layer with weights.

    shape: Shape of the output.
    flop: Number of floating-point operations of a convolution. A multiplication and an addition count as two.
    """

    name: str
    shape: tuple[int, ...]
    n_parameters: int
    flop: int


@contextmanager
def watched_layers(network: nn.Module) -> Iterator[list[Layer]]:
    """Yield a list that records the first call of each layer with weights."""
    layers: list[Layer] = []
    names = {  # spectral norm moves a weight into a submodule, which is not a layer
        module: name
        for name, module in network.named_modules()
        if "parametrizations" not in name.split(".") and _weights_of(module)
    }

    def record(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if module not in names:
            return
        parameters = _weights_of(module)
        weight = max(parameters, key=Tensor.numel)
        images = inputs[0] if isinstance(module, nn.ConvTranspose2d) else output  # each pixel uses all weights
        flop = 2 * images.numel() * weight.numel() // len(weight) if weight.dim() > 1 else 0
        n_parameters = sum(parameter.numel() for parameter in parameters)
        layers.append(Layer(names.pop(module), tuple(output.shape), n_parameters, flop))

    with ExitStack() as stack:
        for module in names:
            stack.callback(module.register_forward_hook(record).remove)
        yield layers


def table(title: str, layers: list[Layer]) -> list[str]:
    """Return a table of the layers with a row of sums, as lines."""
    rows = [*layers, Layer("in all", (), sum(layer.n_parameters for layer in layers), sum(one.flop for one in layers))]
    width = max(len(name) for name in (title, *(row.name for row in rows)))
    return [f"{title:<{width}}  {'output':>20}  {'parameters':>12}  {'GFLOP':>9}"] + [
        f"{row.name:<{width}}  {'x'.join(map(str, row.shape)):>20}  {row.n_parameters:>12,}  {row.flop / 1e9:>9.3f}"
        for row in rows
    ]


def _weights_of(module: nn.Module) -> list[nn.Parameter]:
    normed = cast(nn.ModuleDict, module.parametrizations).parameters() if is_parametrized(module) else ()
    return [*module.parameters(recurse=False), *normed]


def downloads(config: Config) -> list[PretrainedFile]:
    """Return the files of pretrained weights that a run needs and that are not in torch's cache."""
    needed = [_file_of_loss(config), *(_file_of(config, name) for name in config.metrics.extra)]
    return [file for file in dict.fromkeys(needed) if file and not file.cached.is_file()]


def without_downloads(config: Config) -> Config:
    """Return the configuration without the losses and metrics whose weights would be downloaded.

    Raise ConfigError if one of their packages is not installed.
    """
    missing, loss, best = downloads(config), config.loss, config.checkpoint.best
    for file in missing:
        file.require_package()
    extra = [name for name in config.metrics.extra if _file_of(config, name) not in missing]
    if _file_of_loss(config) in missing:
        others = sum(weight for name, weight in loss.weights_of_images.items() if name != "perceptual")
        loss = replace(loss, perceptual=0.0, l1=loss.l1 if others else 1.0)
    best = "none" if best in config.metrics.extra and best not in extra else best
    metrics, checkpoint = replace(config.metrics, extra=extra), replace(config.checkpoint, best=best)
    return replace(config, loss=loss, metrics=metrics, checkpoint=checkpoint)


def _file_of_loss(config: Config) -> PretrainedFile | None:
    is_computed = "perceptual" in config.loss_weights
    return PERCEPTUAL_LOSSES[config.loss.perceptual_network].file if is_computed else None


def _file_of(config: Config, metric: str) -> PretrainedFile | None:
    kind = with_features(METRICS[metric], config.metrics.features)
    source = kind.features if isinstance(kind, SetMetric) else kind
    return source.weights if isinstance(source, FeatureSource | PairMetric) else None
