"""CycleGAN's update: a generator for each direction, whose compositions are to give back the images."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from losses.adversarial import AdversarialLoss, mean_logits
from losses.augmentation import Augmentation
from losses.loss_inputs import DiscriminatorLosses, DiscriminatorLossInputs
from models.patch_discriminator import DiscriminatorOutput
from training.image_pool import ImagePool
from training.methods.contrastive_update import Pair
from training.optimizer_group import OptimizerGroup
from training.running_means import RunningMeans
from training.trained_network import TrainedNetwork
from utils.distributed import synchronized
from utils.precision import Precision


@dataclass(frozen=True)
class CycleLoss:
    """The weights of the losses of Zhu et al. 2017, section 3, and of its identity loss (5.2).

    cycle_a, cycle_b: of the L1 of a source, or a target, that is translated there and back. identity: in shares of
        these, of the L1 of images that are translated to their own side; 0 without these passes.
    """

    cycle_a: float = 10.0
    cycle_b: float = 10.0
    identity: float = 0.5


@dataclass
class Side:
    """The network that judges the images of one side, and those of its translated images that it is shown again."""

    discriminator: TrainedNetwork
    pool: ImagePool | None


@dataclass
class CycleUpdate:
    """The update of CycleGAN: both generators step first, then both discriminators, on the fakes of before that step.

    a_to_b, b_to_a: the generators. a, b: their sources, and their targets.
    optimizers: groups "generators" and "discriminators", since the losses of two networks are one sum.
    """

    a_to_b: TrainedNetwork
    b_to_a: TrainedNetwork
    a: Side
    b: Side
    optimizers: Mapping[str, OptimizerGroup]
    weights: CycleLoss
    adversarial: AdversarialLoss
    discriminator_objective: DiscriminatorLosses
    precision: Precision
    augmentation: Augmentation = field(default_factory=Augmentation)
    means: RunningMeans = field(default_factory=RunningMeans)

    def step(self, groups: Sequence[Sequence[Pair]]) -> None:
        """Update the generators and the discriminators from the passes of the one group."""
        (passes,) = groups
        with ExitStack() as stack:
            for group in self.optimizers.values():
                stack.enter_context(group.undoing_statistics())
            fakes = self._update_generators(passes)
            self._update_discriminators(passes, fakes)

    def _update_generators(self, passes: Sequence[Pair]) -> list[Pair]:
        """Return the translations into A and into B of each pass, without graph."""
        fakes = []
        for pair in _synchronized(passes, self.a_to_b, self.b_to_a):
            with self.precision.autocast():
                fake = Pair(self.b_to_a.network(pair.target), self.a_to_b.network(pair.source))
                loss = self._generator_loss(pair, fake)
            self.optimizers["generators"].backward(loss / len(passes))
            fakes.append(Pair(*(image.detach() for image in fake)))
        self.optimizers["generators"].step()
        return fakes

    def _generator_loss(self, pair: Pair, fake: Pair) -> Tensor:
        weights, (real_a, real_b), (fake_a, fake_b) = self.weights, pair, fake
        terms = {
            "adversarial_A": self._judged(self.a, fake_a),
            "adversarial_B": self._judged(self.b, fake_b),
            "cycle_A": F.l1_loss(self.b_to_a.network(fake_b), real_a),
            "cycle_B": F.l1_loss(self.a_to_b.network(fake_a), real_b),
        }
        total = terms["adversarial_A"] + terms["adversarial_B"]
        total = total + weights.cycle_a * terms["cycle_A"] + weights.cycle_b * terms["cycle_B"]
        if weights.identity:
            terms["identity_A"] = F.l1_loss(self.b_to_a.network(real_a), real_a)
            terms["identity_B"] = F.l1_loss(self.a_to_b.network(real_b), real_b)
            identity = weights.cycle_a * terms["identity_A"] + weights.cycle_b * terms["identity_B"]
            total = total + weights.identity * identity
        self.means.add(terms | {"total": total}, "loss/G/")
        return total

    def _judged(self, side: Side, fake: Tensor) -> Tensor:
        """Return the adversarial loss of a translation, 0-d; the discriminator's own gradients are not wanted."""
        images = self.augmentation.draw(fake).of_image(fake)
        outputs: list[DiscriminatorOutput] = side.discriminator.compute_copy(fake[:, :0], images)
        return self.adversarial.generator([scale.logits for scale in outputs])

    def _update_discriminators(self, passes: Sequence[Pair], fakes: Sequence[Pair]) -> None:
        remaining = iter(fakes)
        for pair in _synchronized(passes, self.a.discriminator, self.b.discriminator):
            fake = next(remaining)
            with self.precision.autocast():  # B first, as in the original, whose pools share a random generator
                loss = self._discriminator_loss("B", self.b, pair.target, fake.target)
                loss = loss + self._discriminator_loss("A", self.a, pair.source, fake.source)
            self.optimizers["discriminators"].backward(loss / len(passes))
        self.optimizers["discriminators"].step()

    def _discriminator_loss(self, name: str, side: Side, real: Tensor, fake: Tensor) -> Tensor:
        nothing = real[:, :0]
        shown = side.pool.exchange(fake[:, :0], fake)[1] if side.pool else fake
        transform = self.augmentation.draw(real)

        def logits(images: Tensor) -> list[Tensor]:
            outputs: list[DiscriminatorOutput] = side.discriminator.network(nothing, transform.of_image(images))
            return [scale.logits for scale in outputs]

        of_fake, of_real = logits(shown), logits(real)
        terms = self.discriminator_objective(
            DiscriminatorLossInputs(
                fake_logits=of_fake,
                real_logits=of_real,
                source=nothing,
                fake=shown,
                real=real,
                discriminate=logits,
                discriminate_mix=lambda mask: logits(torch.where(mask, real, shown)),
            )
        )
        self.means.add(terms, f"loss/D_{name}/")
        self.means.add({"fake": mean_logits(of_fake), "real": mean_logits(of_real)}, f"logits/D_{name}/")
        return terms["total"]


def _synchronized(passes: Sequence[Pair], *networks: TrainedNetwork) -> Iterator[Pair]:
    """Yield each pass; the processes average these networks' gradients in the last one."""
    for number, pair in enumerate(passes, start=1):
        with ExitStack() as stack:
            for network in networks:
                stack.enter_context(synchronized(network.network, number == len(passes)))
            yield pair
