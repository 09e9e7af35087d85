"""From a configuration to the update of both networks, and to what makes a step of it."""

import torch
from torch import nn

from configs import build
from configs.schema import Config
from training.batches import ConditionedPasses, StepBatches
from training.cuda_graph import CudaGraphs, CudaGraphStep, Step
from training.image_pool import ImagePool
from training.step_in_backward import SteppingInBackward
from training.trainable import TrainableNetwork, Wrap, make_adam
from training.update import AdversarialUpdate
from utils.compilation import compiled
from utils.distributed import World
from utils.errors import ConfigError
from utils.precision import Precision, allow_tf32, choose_precision


def build_step(config: Config, update: AdversarialUpdate) -> Step:
    """Return what makes one update from the batches of a step: conditioning, then the update."""
    conditioning = build.build_conditioning(config)

    def step(batches: StepBatches) -> None:
        update.step([ConditionedPasses(group, conditioning) for group in batches])

    if not config.train.cuda_graph:
        return step
    parameters = [parameter for network in update.networks.values() for parameter in network.module.parameters()]
    return CudaGraphStep(step, CudaGraphs(), trained=lambda: [parameter.requires_grad for parameter in parameters])


def build_update(config: Config, world: World) -> AdversarialUpdate:
    """Return networks, optimizers and losses with initial weights, on the device of `world`.

    Raises:
        ConfigError, WeightsError: settings contradict the number of processes, or a loss lacks its weights.
    """
    if config.train.pool_size and world.size > 1:
        raise ConfigError(
            f"train.pool_size is {config.train.pool_size}, expected 0 with several processes: each would have its own"
        )
    torch.manual_seed(config.run.seed)
    precision = choose_precision(config.amp.opt_level, config.amp.dtype, world.device)
    allow_tf32(config.amp.opt_level != "O0")
    generator, discriminator = build.build_generator(config), build.build_discriminator(config)
    with world.main_first():
        objective = build.build_generator_objective(config, world.device)
    torch.manual_seed(config.run.seed + world.rank)  # noise differs by process

    def wrap_generator(network: nn.Module) -> nn.Module:
        return world.wrap(compiled(network, world.device) if config.train.compile else network)

    # the generator's backward pass goes through the discriminator's graph, whose weights have to stay until its end
    kind = SteppingInBackward if steps_in_backward(config, world, precision) else TrainableNetwork
    return AdversarialUpdate(
        generator=_make_trainable(kind, generator, config, world.device, precision, wrap_generator),
        discriminator=_make_trainable(TrainableNetwork, discriminator, config, world.device, precision, world.wrap),
        objective=objective,
        discriminator_objective=build.build_discriminator_objective(config),
        precision=precision,
        joint_discrimination=config.discriminator.norm == "instance",
        retain_graph=config.train.retain_graph,
        augmentation=build.build_augmentation(config, world.device),
        pool=ImagePool(config.train.pool_size) if config.train.pool_size else None,
    )


def steps_in_backward(config: Config, world: World, precision: Precision) -> bool:
    """Return whether the generator does: where an update needs its own gradient alone, which one pass gives."""
    is_measured = config.optimizer.max_gradient_norm is not None or config.log.gradient_norms
    is_in_parts = world.size > 1 or config.train.accumulation_steps > 1
    is_of_another = precision.make_scaler().is_enabled() or precision.keeps_master_weights
    comes_at_once = config.train.compile or config.train.cuda_graph
    return config.optimizer.step_in_backward and not (is_measured or is_in_parts or is_of_another or comes_at_once)


def _make_trainable(
    kind: type[TrainableNetwork],
    module: nn.Module,
    config: Config,
    device: torch.device,
    precision: Precision,
    wrap: Wrap,
) -> TrainableNetwork:
    module.to(device).to(memory_format=build.memory_format(config, device))
    settings = config.optimizer
    compute_copy = precision.compute_copy(module)
    return kind(
        module=module,
        compute_copy=compute_copy,
        wrap=wrap,
        optimizer=make_adam(
            module,
            learning_rate=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            weight_decay=settings.weight_decay,
            capturable=config.train.cuda_graph,
        ),
        scaler=precision.make_scaler(),
        max_gradient_norm=settings.max_gradient_norm,
        measures_gradients=config.log.gradient_norms,
    )


def check_cuda_graph(config: Config, world: World) -> None:
    """Raise ConfigError where train.cuda_graph is on and cannot be."""
    where = "without a GPU" if world.device.type != "cuda" else "with several processes" if world.size > 1 else ""
    if config.train.cuda_graph and where:
        raise ConfigError(f"train.cuda_graph is true, expected false {where}")
