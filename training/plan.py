"""The checks and the plan that are printed before a run starts."""

import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from configs import build, sample_cache
from configs.image_sides import check_discriminated
from configs.label_maps import class_table
from configs.schema import Config
from configs.splits import TRAIN
from configs.stored_images import describe_pixels
from configs.unused_settings import unused_settings
from data.bad_samples import BadSamples
from data.batch import Batch, DataError, Sample
from data.checks.palettes import label_maps, palette_problems
from data.checks.transparency import channels_of_images, dropped_transparency
from data.files.image_files import count_other_files
from data.layout import Layout
from data.loader import Replacement
from data.sampler import SampleKey
from training.disk_space import size
from training.methods.method import Method
from training.model_summary import table, watched_layers
from training.setup import Training
from training.splits import Splits, describe_validation
from training.trained_network import TrainedNetwork
from utils.errors import ConfigError
from utils.text import counted

CHECKED_SAMPLES = 100  # by --dry-run; and palettes of label maps, by each start
LISTED_CLASSES = 40
VGG_MIN_SIDE = 16  # pixels, which four poolings make one


def describe(training: Training) -> list[str]:
    """Return the plan as lines: networks, data, steps.

    Raises:
        ConfigError, DataError: the samples cannot be used.
    """
    config, world, state = training.config, training.world, training.run_state.loop
    validation = training.validation
    check_palettes(config, training.splits)
    others = count_other_files(training.layout.folders) if world.is_main else ""
    sample = training.dataset(training.layout)[SampleKey(epoch=0, index=0)]
    if isinstance(sample, Exception):
        raise sample
    check_size(config, sample)
    counts = [f"{name:<14} {_count_parameters(network)}" for name, network in training.method.networks.items()]
    precision = training.method.precision
    dtype = str(precision.compute_dtype).removeprefix("torch.")
    unused = unused_settings(config)
    return [
        f"run            {training.folder}",
        *counts,
        f"data           {counted(len(training.layout), 'sample')}, the first is {sample.name} "
        f"{sample.source.shape[-1]}x{sample.source.shape[-2]}{_target_size(sample)}",
        *describe_pixels(config.data),
        *_describe_classes(config),
        *_describe_weights(config),
        *([f"left out       files of other formats: {others}"] if others else []),
        *_describe_cache(training, training.layout.names.index(sample.name)),
        *(describe_validation(config, training.splits, len(validation.samples)) if validation else []),
        f"plan           step {state.step} to {training.total_steps}, each of {_samples_of_step(config, world.size)}; "
        f"{counted(state.batches_per_epoch, 'batch', 'batches')} an epoch, {counted(config.total_epochs, 'epoch')}",
        f"device         {world.device}, {world.size} process{'es' if world.size > 1 else ''}, {dtype}",
        *(["slow           float16 on a CPU: amp.dtype=auto"] if precision.is_slow else []),
        *([f"without effect {', '.join(unused)}"] if unused else []),
    ]


@dataclass(frozen=True)
class CheckedSamples:
    """The findings of `check_samples`.

    lines: the networks layer by layer, and the memory to expect. batch: the first samples, on the device.
    loading_s: seconds that a sample took to be read and placed.
    """

    lines: list[str]
    batch: Batch
    loading_s: float


def check_samples(training: Training) -> CheckedSamples:
    """Load up to CHECKED_SAMPLES training samples from all over the data set, and compute the losses of a batch.

    Raises:
        ConfigError, DataError: a sample cannot be used, or is too small for the discriminator.
    """
    config, method = training.config, training.method
    begin_s = time.perf_counter()
    samples, checked = _load_samples(training)
    n_checked = len(checked)
    loading_s = (time.perf_counter() - begin_s) / n_checked
    batch = Batch.of(samples).to(training.world.device)
    networks = method.networks
    n_kept_bytes = activation_bytes(method, batch)
    weights = sum(network.n_weight_bytes for network in networks.values())
    gradients = sum(network.n_gradient_bytes for network in networks.values())
    lines = [
        *layer_tables(method, batch),
        f"memory         about {size(3 * weights + gradients + n_kept_bytes)}: {size(weights)} of weights, twice that "
        f"of moments, {size(gradients)} of gradients, {size(n_kept_bytes)} kept for the backward passes of a batch",
        f"checkpoint     about {size(training.run_state.n_bytes)}, {config.checkpoint.keep or 'all'} of them are kept",
        f"checked        {n_checked} of {len(training.layout)} training samples, networks and losses on a batch of "
        "them: good",
        *_describe_transparency(training.layout, checked),
    ]
    return CheckedSamples(lines, batch, loading_s)


def _describe_transparency(layout: Layout, checked: Mapping[int, Mapping[str, int]]) -> list[str]:
    """Return a line on the transparency that samples lose; nothing where they have none."""
    files = [dropped_transparency(layout, index, n_channels)[:1] for index, n_channels in checked.items()]
    paths = [path for of_sample in files for path in of_sample]
    have = "has" if len(paths) == 1 else "have"
    return (
        [f"transparency   is dropped, which {len(paths)} of these samples {have}, such as {paths[0]}"] if paths else []
    )


def _load_samples(training: Training) -> tuple[list[Sample], dict[int, dict[str, int]]]:
    """Load samples from all over the data set; return a batch of them, and the channels of all by index."""
    dataset, batch_size = training.dataset(training.layout), training.config.train.batch_size
    n_samples = len(training.layout)
    indices = range(0, n_samples, -(-n_samples // max(CHECKED_SAMPLES, batch_size)))
    samples, bad_samples = list[Sample](), BadSamples(n_samples)
    channels: dict[int, dict[str, int]] = {}
    for index in indices:
        loaded = dataset[SampleKey(epoch=0, index=index)]
        if isinstance(loaded, Exception):
            raise loaded
        bad_samples.add(loaded.replaces if isinstance(loaded, Replacement) else [])
        check_size(training.config, loaded)
        samples += [loaded] if len(samples) < batch_size else []
        channels[index] = channels_of_images(loaded)
    return samples, channels


def layer_tables(method: Method, batch: Batch) -> list[str]:
    """Return the networks layer by layer, as lines: outputs, parameters and arithmetic of one pass."""
    with ExitStack() as stack:
        watched = {
            name: stack.enter_context(watched_layers(network.compute_copy)) for name, network in method.networks.items()
        }
        method.pass_once(batch)
    return [line for name, layers in watched.items() for line in table(name, layers)]


def activation_bytes(method: Method, batch: Batch) -> int:
    """Compute the losses of a pass; return the bytes that are kept for the backward passes, without the weights."""
    modules = [network.module for network in method.networks.values()]
    known = {parameter.untyped_storage().data_ptr() for module in modules for parameter in module.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        losses = method.losses_of(batch)  # alive until the sum, so that no memory is counted twice
    n_bytes = sum(kept.values())
    del losses
    return n_bytes


def check_palettes(config: Config, splits: Splits) -> None:
    """Raise DataError where label maps of any splits have different palettes, as far as CHECKED_SAMPLES of each show.

    Raises:
        DataError: palettes differ, or the validation split cannot be used.
    """
    if not splits.train.n_classes or config.data.label_colors:  # colours are the same in any palette
        return
    layouts = [splits.train]
    if splits.validation != TRAIN:
        layouts.append(splits.open_validation(config))
    test_split = config.data.test_split
    if test_split not in (TRAIN, splits.validation) and build.has_split(config.data, test_split):
        with suppress(DataError):  # its other problems are not those of a training
            layouts.append(build.build_layout(config, test_split, needs_targets=False))
    problems = palette_problems(path for layout in layouts for path in label_maps(layout, CHECKED_SAMPLES))
    if problems:
        raise DataError(*problems)


def check_size(config: Config, sample: Sample) -> None:
    """Raise ConfigError where a sample is too small for the discriminator or for VGG19."""
    images = sample.source if sample.target is None else sample.target
    name = sample.name if sample.target is None else f"the target of {sample.name}"
    side = min(images.shape[-2:])
    check_discriminated(config, name, side)
    if config.loss.vgg and side < VGG_MIN_SIDE:
        raise ConfigError(
            f"loss.vgg is {config.loss.vgg:g}, but the shorter side of {name} has {side} pixels, and VGG19 "
            f"needs {VGG_MIN_SIDE}: use larger images or loss.vgg=0"
        )


def _target_size(sample: Sample) -> str:
    """Return the size of a target that is not that of its source, after an arrow."""
    if sample.target is None or sample.target.shape[-2:] == sample.source.shape[-2:]:
        return ""
    return f" -> {sample.target.shape[-1]}x{sample.target.shape[-2]}"


def _describe_classes(config: Config) -> list[str]:
    """Return the names of the classes; nothing where they have none."""
    table = class_table(config.data)
    if table is None:
        return []
    n_classes, how = len(table.names), " by colours" if config.data.label_colors else ""
    more = f" and {n_classes - LISTED_CLASSES} more" if n_classes > LISTED_CLASSES else ""
    return [f"classes        {n_classes}{how}: {', '.join(table.names[:LISTED_CLASSES])}{more}"]


def _describe_weights(config: Config) -> list[str]:
    """Return the weights of pixels; nothing where all weigh the same."""
    loss = config.loss
    parts = [f"maps of {config.data.weight_folder}"] if config.data.has_weight_maps else []
    parts += [f"{name} {weight:g}" for name, weight in loss.class_weights.items()][:LISTED_CLASSES]
    are_trained = any((loss.l1, loss.feature_matching, loss.vgg))
    where = "" if are_trained else "; of metrics alone: loss.l1, loss.feature_matching and loss.vgg are 0"
    return [f"weights        {', '.join(parts)}{where}"] if parts else []


def _describe_cache(training: Training, index: int) -> list[str]:
    """Return how much of the data set will be kept, estimated from sample `index`; nothing where there is no cache."""
    data = training.config.data
    cached = sample_cache.build_cached_layout(training.config, training.layout, training.folder)
    if cached is None:
        return []
    outlook = cached.estimate(index)
    if outlook.n_fitting >= outlook.n_samples:
        return [f"cache          {data.cache}, about {size(outlook.n_bytes)}"]
    remedy = f"raise data.cache_gib ({data.cache_gib:g} GiB)"
    if outlook.lacks_space:
        remedy = f"too little is free in {sample_cache.cache_folder(training.config, training.folder)}"
    return [f"cache          {data.cache}, about {outlook.n_fitting} of {outlook.n_samples} samples fit: {remedy}"]


def _samples_of_step(config: Config, n_processes: int) -> str:
    """Return the number of samples, and what it is the product of."""
    batch_size, n_batches = config.train.batch_size, config.batches_per_step
    where = f"{n_processes} process{'es' if n_processes > 1 else ''}"
    batches = f"{f'{n_batches} x ' if n_batches > 1 else ''}batch {batch_size} on {where}"
    n_samples = n_batches * batch_size * n_processes
    return f"{n_samples} sample{'s' if n_samples > 1 else ''} ({batches})"


def _count_parameters(network: TrainedNetwork) -> str:
    n_parameters = sum(parameter.numel() for parameter in network.module.parameters())
    n_trained = sum(parameter.numel() for parameter in network.parameters)
    return f"{n_parameters:>12,} parameters{f', {n_trained:,} of them trained' if n_trained < n_parameters else ''}"
