"""Builds the parts that all training methods use: networks, discriminators with a loss, and optimizers."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Adam

from configs import build
from configs.schema import Config
from models.contract import is_own
from training.methods.discriminator import TrainedDiscriminator
from training.methods.image_pool import ImagePool
from training.methods.method import Translator
from training.optimizer_group import OptimizerGroup, RunningMeans
from training.trained_network import Role, TrainedNetwork, Wrap
from utils.device import choose_precision, compiled, cpu_has_avx2_alone
from utils.distributed import World
from utils.signatures import argument_names


class MethodBuilder:
    """Builds the parts of a training method on the device of `world`, in the precision of the settings.

    common: Arguments of every `Method`, except the optimizers.
    """

    def __init__(self, config: Config, world: World) -> None:
        self._config, self._world = config, world
        # if activations with dropout are recomputed, torch reads the GPU's random state: a CUDA graph cannot do this
        reads_state = config.train.activation_checkpointing and config.generator.dropout
        is_alone_on_gpu = world.device.type == "cuda" and world.size == 1
        self._repeats = config.train.cuda_graph and is_alone_on_gpu and not reads_state
        self._precision = choose_precision(config.amp.opt_level, config.amp.dtype, world.device)
        self._means, self._objective = RunningMeans(), build.build_discriminator_objective(config)
        self.common: dict[str, Any] = {
            "translators": {
                direction: Translator(network, build.data_facts(config, direction))
                for direction, network in config.method.translators.items()
            },
            "precision": self._precision,
            "means": self._means,
            "repeats_steps": self._repeats,
            "discriminator_objective": self._objective,
        }

    def network(self, module: nn.Module, role: Role, as_called: Wrap = lambda network: network) -> TrainedNetwork:
        """Return `module` as a network in training. If train.compile is set, generators are compiled.

        as_called: Function that wraps the module before it is compiled.
        """
        device, is_compiled = self._world.device, role == "generator" and self._config.train.compile
        on_cpu = torch.contiguous_format if self._config.method.declaration.pairs else unpaired_layout_on_cpu()
        module.to(device).to(memory_format=build.memory_format(device, on_cpu))

        def wrap(network: nn.Module) -> nn.Module:
            network = as_called(network)
            return self._world.wrap(compiled(network, device) if is_compiled else network)

        # the initial vectors of a projection are too small for 16-bit types
        copy = module if role == "projection" else self._precision.compute_copy(module)
        return TrainedNetwork(module, copy, wrap, role)

    def discriminator(self, module: nn.Module, tag: str = "D") -> TrainedDiscriminator:
        """Return a discriminator with its loss, and with a pool if train.pool_size is set."""
        config, sees_source = self._config, self._config.method.declaration.pairs
        may_have_norm = is_own(type(module)) or "norm" in argument_names(type(module))
        return TrainedDiscriminator(
            trained=self.network(module, "discriminator"),
            objective=self._objective,
            sees_source=sees_source,
            joint=config.discriminator.norm == "instance" or not may_have_norm,
            means=self._means,
            tag=tag,
            augmentation=build.build_augmentation(config),
            pool=ImagePool(config.train.pool_size, coin_first=not sees_source) if config.train.pool_size else None,
            min_side=build.discriminated_side(config),
        )

    def group(self, networks: Mapping[str, TrainedNetwork]) -> OptimizerGroup:
        """Return the optimizer group of `networks`, with one Adam and one GradScaler."""
        settings, rate = self._config.optimizer, self._config.optimizer.learning_rate
        parameters = [parameter for network in networks.values() for parameter in network.module.parameters()]
        adam = Adam(
            parameters,
            lr=torch.tensor(rate, device=parameters[0].device) if self._repeats else rate,  # a graph needs a tensor
            betas=(settings.betas[0], settings.betas[1]),
            fused=True,  # the GPU skips an update with gradients that are not finite, without waiting for the host
            capturable=self._repeats,
        )
        return OptimizerGroup(networks, adam, self._precision.make_scaler(), settings.max_gradient_norm)


def unpaired_layout_on_cpu() -> torch.memory_format:
    """Return the memory format with the fastest steps of unpaired training on this CPU."""
    return torch.contiguous_format if cpu_has_avx2_alone() else torch.channels_last
