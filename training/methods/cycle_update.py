"""CycleGAN's update: a generator for each direction, whose compositions are to give back the images."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch.nn.functional as F
from torch import Tensor

from training.methods.unpaired import ImageDiscriminator, Pair, synchronized_passes
from training.optimizer_group import OptimizerGroup
from training.running_means import RunningMeans
from training.trained_network import TrainedNetwork
from utils.precision import Precision


@dataclass(frozen=True)
class CycleLoss:
    """The weights of the losses of Zhu et al. 2017, section 3, and of its identity loss (5.2).

    weight_a, weight_b: of the L1 of a source, or a target, that is translated there and back. identity: in shares of
        these, of the L1 of images that are translated to their own side; 0 without these passes.
    """

    weight_a: float = 10.0
    weight_b: float = 10.0
    identity: float = 0.5


@dataclass
class CycleUpdate:
    """The update of CycleGAN: both generators step first, then both discriminators, on the fakes of before that step.

    a_to_b, b_to_a: the generators. a, b: judge the sources, and the targets.
    optimizers: groups "generators" and "discriminators", since the losses of two networks are one sum.
    """

    a_to_b: TrainedNetwork
    b_to_a: TrainedNetwork
    a: ImageDiscriminator
    b: ImageDiscriminator
    optimizers: Mapping[str, OptimizerGroup]
    weights: CycleLoss
    adversarial_weight: float
    precision: Precision
    means: RunningMeans = field(default_factory=RunningMeans)

    def step(self, groups: Sequence[Sequence[Pair]]) -> None:
        """Update the generators and the discriminators from the passes of the one group."""
        (passes,) = groups
        with ExitStack() as stack:
            for group in self.optimizers.values():
                stack.enter_context(group.undoing_statistics())
            fakes = self._update_generators(passes)
            self._update_discriminators(passes, fakes)

    def losses(self, pair: Pair) -> tuple[Tensor, Tensor]:
        """Return the losses of generators and discriminators, 0-d each, for one pass."""
        with self.precision.autocast():
            fake = self._translate(pair)
            return self._generator_loss(pair, fake), self._discriminator_loss(pair, fake)

    def _update_generators(self, passes: Sequence[Pair]) -> list[Pair]:
        """Return the translations into A and into B of each pass, without graph."""
        fakes = []
        for _, pair in synchronized_passes(passes, self.a_to_b, self.b_to_a):
            with self.precision.autocast():
                fake = self._translate(pair)
                loss = self._generator_loss(pair, fake)
            self.optimizers["generators"].backward(loss / len(passes))
            fakes.append(Pair(*(image.detach() for image in fake)))
        self._step("generators")
        return fakes

    def _update_discriminators(self, passes: Sequence[Pair], fakes: Sequence[Pair]) -> None:
        for number, pair in synchronized_passes(passes, self.a.trained, self.b.trained):
            with self.precision.autocast():
                loss = self._discriminator_loss(pair, fakes[number])
            self.optimizers["discriminators"].backward(loss / len(passes))
        self._step("discriminators")

    def _step(self, name: str) -> None:
        self.optimizers[name].step()
        self.optimizers[name].report_norm(name, self.means)

    def _translate(self, pair: Pair) -> Pair:
        return Pair(self.b_to_a.network(pair.target), self.a_to_b.network(pair.source))

    def _generator_loss(self, pair: Pair, fake: Pair) -> Tensor:
        weights, (real_a, real_b), (fake_a, fake_b) = self.weights, pair, fake
        terms = {
            "adversarial_A": self.a.adversarial_loss(fake_a),
            "adversarial_B": self.b.adversarial_loss(fake_b),
            "cycle_A": F.l1_loss(self.b_to_a.network(fake_b), real_a),
            "cycle_B": F.l1_loss(self.a_to_b.network(fake_a), real_b),
        }
        total = self.adversarial_weight * (terms["adversarial_A"] + terms["adversarial_B"])
        total = total + weights.weight_a * terms["cycle_A"] + weights.weight_b * terms["cycle_B"]
        if weights.identity:
            terms["identity_A"] = F.l1_loss(self.b_to_a.network(real_a), real_a)
            terms["identity_B"] = F.l1_loss(self.a_to_b.network(real_b), real_b)
            identity = weights.weight_a * terms["identity_A"] + weights.weight_b * terms["identity_B"]
            total = total + weights.identity * identity
        self.means.add(terms | {"total": total}, "loss/G/")
        return total

    def _discriminator_loss(self, pair: Pair, fake: Pair) -> Tensor:
        # B first, as in the original, whose pools share a random generator
        of_b = self.b.loss(pair.target, fake.target)
        return of_b + self.a.loss(pair.source, fake.source)
