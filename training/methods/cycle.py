"""Unpaired training in both directions (CycleGAN)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from configs import build
from configs.schema import Config, CycleConfig
from losses import GENERATOR_LOSSES
from losses.objective import GeneratorObjective, WeightedLoss
from training.methods.builder import MethodBuilder
from training.methods.discriminator import TrainedDiscriminator
from training.methods.image_pool import ImagePool
from training.methods.method import Pair, Unpaired
from training.trained_network import TrainedNetwork, synchronized_passes
from utils.distributed import World

Side = Literal["A", "B"]
SIDES: tuple[Side, Side] = ("A", "B")


class _Half(NamedTuple):
    """The translations of one domain's images, and their generator losses.

    loss: Weighted sum of the losses. Only this field has a graph, and only until the backward pass.
    """

    fake: Tensor
    terms: dict[str, Tensor]
    loss: Tensor


@dataclass
class Cycle(Unpaired):
    """A generator for each direction and a discriminator for each domain (Zhu et al. 2017).

    Both generators are updated first. The discriminators then use the translations made before this update.

    a_to_b, b_to_a: Generators.
    a, b: Discriminators of the domains A and B.
    objectives: Losses of the translations, by the domain of their sources.
    weights: Weights of the cycle consistency losses (section 3) and of the identity loss (section 5.2).
    optimizers: Groups "generators" and "discriminators". Each group minimizes the summed losses of its networks.
    """

    a_to_b: TrainedNetwork
    b_to_a: TrainedNetwork
    a: TrainedDiscriminator
    b: TrainedDiscriminator
    objectives: Mapping[Side, GeneratorObjective]
    weights: CycleConfig

    def update(self, groups: Sequence[Sequence[Pair]]) -> None:
        """Update the generators and the discriminators from the passes of the only group."""
        (passes,) = groups
        self._update_discriminators(passes, self._update_generators(passes))

    def losses(self, pair: Pair) -> tuple[Tensor, Tensor]:
        """Return the losses of generators and discriminators, 0-d each, for one pass."""
        with self.precision.autocast():
            made = [self._there_and_back(pair, side) for side in SIDES]
            return made[0].loss + made[1].loss, self._discriminator_loss(pair, self._summed_up(made))

    def _update_generators(self, passes: Sequence[Pair]) -> list[Pair]:
        """Update both generators. Return the translations into A and into B of each pass, without graph."""
        halves, made = [(pair, side) for pair in passes for side in SIDES], []
        for pair, side in synchronized_passes(halves, self.a_to_b, self.b_to_a):
            with self.precision.autocast():
                half = self._there_and_back(pair, side)
            self.optimizers["generators"].backward(half.loss / len(passes))  # frees the graph before the next half
            made.append(half._replace(loss=half.loss.detach()))
        self.optimizers["generators"].step("generators", self.means)
        return [self._summed_up(made[place : place + 2]) for place in range(0, len(made), 2)]

    def _update_discriminators(self, passes: Sequence[Pair], fakes: Sequence[Pair]) -> None:
        pairs = list(zip(passes, fakes, strict=True))
        for pair, fake in synchronized_passes(pairs, self.a.trained, self.b.trained):
            with self.precision.autocast():
                loss = self._discriminator_loss(pair, fake)
            self.optimizers["discriminators"].backward(loss / len(passes))
        self.optimizers["discriminators"].step("discriminators", self.means)

    def _there_and_back(self, pair: Pair, side: Side) -> _Half:
        """Translate the images of a domain to the other domain and back."""
        if side == "A":
            images, others, there, back, judge = pair.source, pair.target, self.a_to_b, self.b_to_a, self.b
        else:
            images, others, there, back, judge = pair.target, pair.source, self.b_to_a, self.a_to_b, self.a
        weight = self.weights.weights[SIDES.index(side)]
        fake = there.network(images)
        own: dict[str, WeightedLoss] = {
            f"cycle_{side}": (lambda made: F.l1_loss(back.network(made.fake), images), weight)
        }
        if self.weights.identity:
            identity = self.weights.identity * weight
            own[f"identity_{side}"] = lambda _: F.l1_loss(back.network(images), images), identity
        inputs = judge.loss_inputs(images, fake, others, outside=pair.outside if side == "A" else None)
        terms = self.objectives[side](inputs, own)
        loss = terms.pop("total")
        return _Half(fake.detach(), {name: term.detach() for name, term in terms.items()}, loss)

    def _summed_up(self, made: Sequence[_Half]) -> Pair:
        """Add the losses of both domains to the means. Return the translations into A and into B."""
        of_a, of_b = made
        self.means.add(of_a.terms | of_b.terms | {"total": of_a.loss + of_b.loss}, "loss/G/")
        return Pair(of_b.fake, of_a.fake)

    def _discriminator_loss(self, pair: Pair, fake: Pair) -> Tensor:
        # compute B first, as in the original code, because both pools draw from the same random generator
        of_b = self.b.loss(pair.source, fake.target, pair.target)
        return of_b + self.a.loss(pair.target, fake.source, pair.source)

    @property
    def pools(self) -> list[tuple[ImagePool, str]]:
        """The pools of both discriminators, if there are any."""
        return [(pool, name) for pool, name in ((self.b.pool, "source"), (self.a.pool, "target")) if pool]

    def process_state(self) -> dict[str, Any]:
        """Return the state of this process's pools, by domain."""
        return {name: judge.pool.state_dict() for name, judge in (("A", self.a), ("B", self.b)) if judge.pool}

    def load_process_state(self, state: Mapping[str, Any]) -> None:
        """Load the state that `process_state` returned. A pool without a state becomes empty."""
        for side, judge in (("A", self.a), ("B", self.b)):
            if judge.pool:
                judge.pool.load_state_dict(state.get(side, []), self.device)


def build_cycle(config: Config, world: World) -> Cycle:
    """Return networks, optimizers and losses with initial weights, on the device of `world`."""
    torch.manual_seed(config.run.seed)
    builder = MethodBuilder(config, world)
    generators = {name: build.build_generator(config, way) for way, name in config.method.translators.items()}
    sides = {side: build.build_discriminator(config, way) for side, way in (("A", "BtoA"), ("B", "AtoB"))}
    torch.manual_seed(config.run.seed + world.rank)  # each process draws its own numbers
    a_to_b, b_to_a = (builder.network(module, "generator") for module in generators.values())
    a, b = (builder.discriminator(module, f"D_{side}") for side, module in sides.items())
    return Cycle(
        a_to_b=a_to_b,
        b_to_a=b_to_a,
        a=a,
        b=b,
        optimizers={
            "generators": builder.group({"generator_AtoB": a_to_b, "generator_BtoA": b_to_a}),
            "discriminators": builder.group({"discriminator_A": a.trained, "discriminator_B": b.trained}),
        },
        objectives=objectives_of(build.build_generator_objective(config, world.device).losses),
        weights=config.cycle,
        **builder.common,
    )


def objectives_of(losses: Mapping[str, WeightedLoss]) -> dict[Side, GeneratorObjective]:
    """Return the generator losses of each direction, by the domain of the sources.

    Losses that need label maps exist only for sources of A. The names of other losses end with the target domain.
    """
    of_a_only = {name for name in losses if name in GENERATOR_LOSSES and GENERATOR_LOSSES[name].needs_labels}
    named = {name: name if name in of_a_only else f"{name}_B" for name in losses}
    return {
        "A": GeneratorObjective({named[name]: loss for name, loss in losses.items()}),
        "B": GeneratorObjective({f"{name}_A": loss for name, loss in losses.items() if name not in of_a_only}),
    }
