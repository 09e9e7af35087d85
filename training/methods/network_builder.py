"""From a configuration and modules to networks in training and their optimizer groups, alike for every method."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from configs import build
from configs.schema import Config
from training.optimizer_group import OptimizerGroup, make_adam
from training.trained_network import Role, TrainedNetwork, Wrap
from utils.compilation import compiled
from utils.distributed import World
from utils.precision import Precision, choose_precision


@dataclass(frozen=True)
class NetworkBuilder:
    """Puts networks on the device of `world`, in the precision and the memory layout of the settings.

    layout_on_cpu: where the settings leave it open.
    """

    config: Config
    world: World
    layout_on_cpu: torch.memory_format = torch.contiguous_format

    @property
    def precision(self) -> Precision:
        """The precision in which the networks compute."""
        return choose_precision(self.config.amp.opt_level, self.config.amp.dtype, self.world.device)

    def network(self, module: nn.Module, role: Role, as_called: Wrap = lambda network: network) -> TrainedNetwork:
        """Return a network in training; a generator is compiled if the settings want that.

        as_called: returns the module whose forward pass is the one of training.
        """
        device, is_compiled = self.world.device, role == "generator" and self.config.train.compile
        module.to(device).to(memory_format=build.memory_format(self.config, device, self.layout_on_cpu))

        def wrap(network: nn.Module) -> nn.Module:
            network = as_called(network)
            return self.world.wrap(compiled(network, device) if is_compiled else network)

        # the vectors of a projection begin too short for low dtypes
        copy = module if role == "projection" else self.precision.compute_copy(module)
        return TrainedNetwork(module, copy, wrap, role)

    def group(self, networks: Mapping[str, TrainedNetwork]) -> OptimizerGroup:
        """Return networks with an optimizer and a GradScaler of their own."""
        settings = self.config.optimizer
        return OptimizerGroup(
            networks=networks,
            optimizer=make_adam(
                [network.module for network in networks.values()],
                learning_rate=settings.learning_rate,
                betas=(settings.beta1, settings.beta2),
            ),
            scaler=self.precision.make_scaler(),
            max_gradient_norm=settings.max_gradient_norm,
        )
