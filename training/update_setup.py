"""From a configuration to the update of both networks, and to what makes a step of it."""

from collections.abc import Callable

import torch
from torch import nn

from configs import build
from configs.schema import Config
from training.batches import ConditionedPasses, StepBatches
from training.image_pool import ImagePool
from training.trainable import TrainableNetwork, Wrap, make_adam
from training.update import AdversarialUpdate
from utils.compilation import compiled
from utils.distributed import World
from utils.errors import ConfigError
from utils.precision import Precision, allow_tf32, choose_precision


def build_step(config: Config, update: AdversarialUpdate) -> Callable[[StepBatches], None]:
    """Return what makes one update from the batches of a step: conditioning, then the update."""
    conditioning = build.build_conditioning(config)

    def step(batches: StepBatches) -> None:
        update.step([ConditionedPasses(group, conditioning) for group in batches])

    return step


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

    return AdversarialUpdate(
        generator=_make_trainable(generator, config, world.device, precision, wrap_generator),
        discriminator=_make_trainable(discriminator, config, world.device, precision, world.wrap),
        objective=objective,
        discriminator_objective=build.build_discriminator_objective(config),
        precision=precision,
        joint_discrimination=config.discriminator.norm == "instance",
        retain_graph=config.train.retain_graph,
        augmentation=build.build_augmentation(config, world.device),
        pool=ImagePool(config.train.pool_size) if config.train.pool_size else None,
    )


def _make_trainable(
    module: nn.Module,
    config: Config,
    device: torch.device,
    precision: Precision,
    wrap: Wrap,
) -> TrainableNetwork:
    module.to(device).to(memory_format=build.memory_format(config, device))
    settings = config.optimizer
    compute_copy = precision.compute_copy(module)
    return TrainableNetwork(
        module=module,
        compute_copy=compute_copy,
        wrap=wrap,
        optimizer=make_adam(
            module,
            learning_rate=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            weight_decay=settings.weight_decay,
        ),
        scaler=precision.make_scaler(),
        max_gradient_norm=settings.max_gradient_norm,
        measures_gradients=config.log.gradient_norms,
    )
