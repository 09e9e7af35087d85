"""--dry-run: checks that write and download nothing, with the layers of the networks, and a run's memory and time."""

import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from configs import build
from configs.schema import Config
from data.batch import Batch, Sample
from data.loader import BadSamples, SampleKey
from losses.perceptual import VGG19
from metrics import METRICS
from metrics.metric import FeatureSource, PairMetric, SetMetric
from training.cuda_graph import WARM_UP_STEPS, make_step
from training.methods.method import Method, uses_cuda_graph
from training.report.plan import describe
from training.resume import ResumeOptions, find_checkpoint_together, start
from training.run import Training, build_training, joined, run_folder
from training.run_folder import describe_shortage, size
from utils.log import logger
from utils.pretrained import PretrainedFile

CHECKED_SAMPLES = 100
MOST_STEPS = 5
ENOUGH_S = 5  # steps are timed for so long


def dry_run(config: Config, options: ResumeOptions) -> None:
    """Check everything and print what would be done, and how long it takes. Nothing is written or downloaded."""
    with joined(config) as world:
        build.prepare_device(config, world.device)
        found = find_checkpoint_together(run_folder(config), options.source, world)
        training = build_training(without_downloads(config), world, found)
        training.config = replace(config, data=training.config.data)
        initialized = start(training, found, options)
        missing = [file.announcement for file in downloads(config)]
        for line in [*describe(training), *initialized, *describe_shortage(training), *missing]:
            logger.info(line)
        begin_s = time.perf_counter()
        batch, n_checked = load_samples(training)
        loading_s = (time.perf_counter() - begin_s) / n_checked
        layers, n_kept_bytes = watch_pass(training.method, batch)
        for line in [
            *layers,
            *describe_memory(training, n_kept_bytes),
            f"checked        {n_checked} of {len(training.splits.train)} training samples, and networks and losses on "
            "a batch of them: good",
            *describe_time(training, batch, loading_s),
        ]:
            logger.info(line)


def load_samples(training: Training) -> tuple[Batch, int]:
    """Load up to CHECKED_SAMPLES training samples from all over the data set.

    Returns a batch of the first samples on the device, and the number of loaded samples.
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
    """Compute the losses of a pass.

    Returns tables of the networks' layers, as lines, and the bytes that are kept for the backward passes, without the
    weights. A discriminator that sees real and translated images in one pass has them in one batch.
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
        losses = method.losses(method.inputs(batch))  # alive until the sum, so that no memory is counted twice
        n_bytes = sum(kept.values())
        del losses
    return [line for name, of_network in layers.items() for line in table(name, of_network)], n_bytes


def describe_memory(training: Training, n_kept_bytes: int) -> list[str]:
    """Return lines on the expected memory and on the size of checkpoints.

    n_kept_bytes: Bytes that are kept for the backward passes of a batch.
    """
    networks, n_kept = training.method.networks.values(), training.config.checkpoint.keep or "all"
    weights = sum(network.n_weight_bytes for network in networks)
    gradients = sum(parameter.nbytes for network in networks for parameter in network.parameters)
    best = " and best.pt" if training.best.is_kept else ""
    return [
        f"memory         about {size(3 * weights + gradients + n_kept_bytes)}: {size(weights)} of weights, twice as "
        f"much of moments, {size(gradients)} of gradients, {size(n_kept_bytes)} for the backward passes of a batch",
        f"checkpoint     about {size(training.n_bytes)}, {n_kept} of them are kept{best}",
    ]


def describe_time(training: Training, batch: Batch, loading_s: float) -> list[str]:
    """Return a line on the time that the remaining steps take, after some steps that change the networks.

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
    """Return the median time of a few steps with `batch` in seconds, without the first steps, which are slower."""
    train, world = training.config.train, training.world
    batches = [[batch] * train.accumulation_steps] * train.discriminator_steps
    step, n_slower = make_step(training.method, training.config, world), 1
    if uses_cuda_graph(training.config, world):
        n_slower += 4 * WARM_UP_STEPS + train.pool_size  # a graph for each draw, and steps until a pool is full
    durations_s: list[float] = []
    for number in range(n_slower + MOST_STEPS):
        begin_s = time.perf_counter()
        step(batches)
        if world.device.type == "cuda":
            torch.cuda.synchronize(world.device)
        if number >= n_slower:
            durations_s.append(time.perf_counter() - begin_s)
            if world.all_reduce_max(int(sum(durations_s) > ENOUGH_S)):  # all processes make as many steps
                break
    return statistics.median(durations_s)


class Layer(NamedTuple):
    """The first call of a layer with weights.

    shape: Shape of its output.
    flop: Number of floating-point operations of its convolution. A multiplication and an addition are two.
    """

    name: str
    shape: tuple[int, ...]
    n_parameters: int
    flop: int


@contextmanager
def watched_layers(network: nn.Module) -> Iterator[list[Layer]]:
    """Yield a list that records the first call of each layer with weights."""
    layers: list[Layer] = []
    names = {  # a weight under spectral norm belongs to its convolution
        module: name
        for name, module in network.named_modules()
        if "parametrizations" not in name.split(".") and _weights_of(module)
    }

    def record(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if module not in names:
            return
        parameters = _weights_of(module)
        weight = max(parameters, key=Tensor.numel)
        images = inputs[0] if isinstance(module, nn.ConvTranspose2d) else output  # each of its pixels meets all weights
        flop = 2 * images.numel() * weight.numel() // len(weight) if weight.dim() > 1 else 0
        n_parameters = sum(parameter.numel() for parameter in parameters)
        layers.append(Layer(names.pop(module), tuple(output.shape), n_parameters, flop))

    with ExitStack() as stack:
        for module in names:
            stack.callback(module.register_forward_hook(record).remove)
        yield layers


def table(title: str, layers: list[Layer]) -> list[str]:
    """Return the layers, and their sum, as lines of text."""
    n_parameters, flop = sum(layer.n_parameters for layer in layers), sum(layer.flop for layer in layers)
    width = max([len(layer.name) for layer in layers] + [len(title)])
    lines = [f"{title:<{width}}  {'output':>20}  {'parameters':>12}  {'GFLOP':>9}"]
    for layer in [*layers, Layer("in all", (), n_parameters, flop)]:
        shape = "x".join(map(str, layer.shape))
        lines.append(f"{layer.name:<{width}}  {shape:>20}  {layer.n_parameters:>12,}  {layer.flop / 1e9:>9.3f}")
    return lines


def _weights_of(module: nn.Module) -> list[nn.Parameter]:
    normed = cast(nn.ModuleDict, module.parametrizations).parameters() if is_parametrized(module) else ()
    return [*module.parameters(recurse=False), *normed]


def downloads(config: Config) -> list[PretrainedFile]:
    """Return the files of weights that a run needs and that are not in torch's cache."""
    needed = [VGG19] if "vgg" in config.loss_weights else []
    needed += [file for name in config.metrics.extra if (file := _file_of(name))]
    return [file for file in dict.fromkeys(needed) if not file.cached.is_file()]


def without_downloads(config: Config) -> Config:
    """Return the configuration without the losses and metrics whose weights would be downloaded."""
    missing, loss, best = downloads(config), config.loss, config.checkpoint.best
    extra = [name for name in config.metrics.extra if _file_of(name) not in missing]
    if VGG19 in missing:
        others = sum(weight for name, weight in loss.weights_of_images.items() if name != "vgg")
        loss = replace(loss, vgg=0.0, l1=loss.l1 if others else 1.0)
    best = "none" if best in config.metrics.extra and best not in extra else best
    metrics, checkpoint = replace(config.metrics, extra=extra), replace(config.checkpoint, best=best)
    return replace(config, loss=loss, metrics=metrics, checkpoint=checkpoint)


def _file_of(metric: str) -> PretrainedFile | None:
    kind = METRICS[metric]
    source = kind.features if isinstance(kind, SetMetric) else kind
    return source.weights if isinstance(source, FeatureSource | PairMetric) else None
