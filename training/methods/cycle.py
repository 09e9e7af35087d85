"""Training without pairs in both directions, there and back again (CycleGAN)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from configs import build
from configs.schema import Config
from data.batch import Batch
from training.diagnostics import Diagnostics
from training.image_pool import ImagePool
from training.methods.cycle_update import CycleUpdate
from training.methods.method import NetworkBuilder
from training.methods.unpaired import Unpaired, build_judge, translators
from training.running_means import RunningMeans
from utils.distributed import World


@dataclass
class Cycle(Unpaired):
    """A generator for each direction, and a discriminator for each side."""

    update: CycleUpdate

    def __post_init__(self) -> None:
        super().__post_init__()
        update = self.update
        self.networks = {
            "generator_AtoB": update.a_to_b,
            "generator_BtoA": update.b_to_a,
            "discriminator_A": update.a.trained,
            "discriminator_B": update.b.trained,
        }

    @torch.no_grad()
    def pass_once(self, batch: Batch) -> None:
        """Translate a batch on the device in both directions, and discriminate the translations."""
        pair, copies = self.pair(batch), {n: one.compute_copy for n, one in self.networks.items()}
        with self.precision.autocast():
            fake_b, fake_a = copies["generator_AtoB"](pair.source), copies["generator_BtoA"](pair.target)
            copies["discriminator_A"](fake_a[:, :0], fake_a)
            copies["discriminator_B"](fake_b[:, :0], fake_b)

    @property
    def _pools(self) -> dict[str, ImagePool]:
        pools = {"A": self.update.a.pool, "B": self.update.b.pool}
        return {side: pool for side, pool in pools.items() if pool}

    def process_state(self) -> dict[str, Any]:
        """Return the pools of this process."""
        return {side: pool.state_dict() for side, pool in self._pools.items()}

    def load_process_state(self, state: Mapping[str, Any]) -> None:
        """Load what `process_state` returned; a pool that is not there is empty."""
        for side, pool in self._pools.items():
            pool.load_state_dict(state.get(side, []), self.device)


def build_cycle(config: Config, world: World) -> Cycle:
    """Return networks, optimizers and losses with initial weights, on the device of `world`."""
    torch.manual_seed(config.run.seed)
    builder, means = NetworkBuilder(config, world, torch.channels_last), RunningMeans()
    generators = {name: build.build_generator(config, way) for way, name in config.method.translators.items()}
    sides = {side: build.build_discriminator(config, way) for side, way in (("A", "BtoA"), ("B", "AtoB"))}
    torch.manual_seed(config.run.seed + world.rank)  # dropout and pools differ by process
    a_to_b, b_to_a = (builder.network(module, "generator") for module in generators.values())
    a, b = (build_judge(config, builder, module, tag=f"D_{side}", means=means) for side, module in sides.items())
    update = CycleUpdate(
        a_to_b=a_to_b,
        b_to_a=b_to_a,
        a=a,
        b=b,
        optimizers={
            "generators": builder.group({"generator_AtoB": a_to_b, "generator_BtoA": b_to_a}),
            "discriminators": builder.group({"discriminator_A": a.trained, "discriminator_B": b.trained}),
        },
        weights=config.cycle,
        adversarial_weight=config.loss.adversarial,
        outside_weight=config.loss.outside_mask,
        precision=builder.precision,
        means=means,
    )
    return Cycle(Diagnostics(config.loss.gan_mode), translators(config), update)
