"""The adversarial update of pairs: how generator and discriminator are trained against each other, pass by pass."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor, nn

from data.batch import Batch
from data.conditioning import Conditioning
from losses.augmentation import Augmentation
from losses.objective import DiscriminatorLosses, GeneratorObjective, LossInputs
from losses.pixel_weights import LossWeights
from models.style_encoder import StyledImages, StyleDistribution
from training.image_pool import ImagePool
from training.methods.judge import Judge, Outputs
from training.optimizer_group import OptimizerGroup
from training.running_means import RunningMeans
from training.trained_network import Passes, TrainedNetwork, synchronized_passes
from utils.precision import Precision

Translation = tuple[Tensor, StyleDistribution | None]
"""Translated images (N, C, H, W) in [-1, 1], and the distributions of their styles where an encoder gives them."""


@dataclass(frozen=True)
class ModelInputs:
    """The float tensors of one pass.

    source: (N, C, H, W) float32, the condition that the discriminator sees, of the target's size.
    target: (N, 3 or 1, H, W) float32 in [-1, 1].
    generator_inputs: the arguments of the generator: the source, and instance features or what they are encoded from,
        or the image whose style is encoded.
    weights: (N, 1, H, W) float32, of the target's pixels; None where all weigh the same.
    """

    source: Tensor
    target: Tensor
    generator_inputs: tuple[Tensor, ...]
    weights: Tensor | None = None

    @classmethod
    def of(cls, batch: Batch, conditioning: Conditioning) -> Self:
        """Return the float tensors of a batch of uint8 images and ids, on the batch's device."""
        source = conditioning(batch)
        return cls(
            source=conditioning.of_discriminator(source),
            target=conditioning.target(batch),
            generator_inputs=conditioning.training_inputs(batch, source),
            weights=conditioning.weights(batch),
        )


@dataclass(frozen=True)
class ConditionedPasses:
    """Passes whose float tensors are made when each begins, and live as long as it does."""

    batches: Sequence[Batch]
    conditioning: Conditioning

    def __iter__(self) -> Iterator[ModelInputs]:
        return (ModelInputs.of(batch, self.conditioning) for batch in self.batches)

    def __len__(self) -> int:
        return len(self.batches)


def translate(generator: nn.Module, inputs: tuple[Tensor, ...]) -> Translation:
    """Return the translation that a generator makes of its arguments."""
    made = generator(*inputs)
    return (made.images, made.style) if isinstance(made, StyledImages) else (made, None)


@dataclass
class PairedUpdate:
    """An update of both networks, in one of two orders.

    optimizers: groups "generator" and "discriminator", of these networks.
    joint_discrimination: whether real and translated images share a pass of the discriminator; not where its norm would
        mix their statistics.
    retain_graph: whether one pass of the discriminator, whose graph is kept, serves the losses of both networks.
    augmentation: of the pairs that the discriminator sees; those that are compared share a transform.
    pool: earlier translations, some of which the discriminator is trained on in place of the present ones.
    means: what losses and gradient norms were on average since the last report.
    """

    generator: TrainedNetwork
    discriminator: TrainedNetwork
    optimizers: Mapping[str, OptimizerGroup]
    objective: GeneratorObjective
    discriminator_objective: DiscriminatorLosses
    precision: Precision
    joint_discrimination: bool
    retain_graph: bool = True
    augmentation: Augmentation = field(default_factory=Augmentation)
    pool: ImagePool | None = None
    means: RunningMeans = field(default_factory=RunningMeans)

    def step(self, groups: Sequence[Passes[ModelInputs]]) -> None:
        """Update the generator from the last of `groups`, and the discriminator from each of them."""
        with ExitStack() as stack:
            for group in self.optimizers.values():
                stack.enter_context(group.undoing_statistics())
            for passes in groups[:-1]:
                self.discriminator_update(passes)
            if self.retain_graph:
                self.joint_update(groups[-1])
            else:
                self.alternating_update(groups[-1])

    def joint_update(self, passes: Passes[ModelInputs]) -> None:
        """Make pix2pixHD's update: the fake is discriminated once, and the losses of both networks use that graph.

        The discriminator steps after both backward passes, because it changes weights that the other's graph needs.
        """
        for inputs in synchronized_passes(passes, self.generator, self.discriminator):
            self._joint_pass(inputs, share=1 / len(passes))
        self.optimizers["discriminator"].step("discriminator", self.means)
        self.optimizers["generator"].step("generator", self.means)

    def _joint_pass(self, inputs: ModelInputs, share: float) -> None:
        of_generator, of_discriminator = self.losses(inputs)  # freed at the end, with the graph, before the next pass
        self.optimizers["discriminator"].backward(of_discriminator * share, retain_graph=True)
        self.optimizers["generator"].backward(of_generator * share)

    def losses(self, inputs: ModelInputs) -> tuple[Tensor, Tensor]:
        """Return the losses of generator and discriminator, 0-d each, from one pass of each with the same weights."""
        with self.precision.autocast():
            fake, style = translate(self.generator.network, inputs.generator_inputs)
            pairs = [(inputs.source, fake), (inputs.source, inputs.target)]
            if self.pool:
                pairs.append(self.pool.exchange(inputs.source, fake))
            transform = self.augmentation.draw(inputs.target)
            fake_outputs, target_outputs, *pooled = self._judge.outputs(transform, *pairs)
            shown = pooled[0] if pooled else fake_outputs
            discriminator_loss = self._judge.loss_of(
                inputs.source, fake, inputs.target, transform, fakes=shown, reals=target_outputs
            )
            translation = LossInputs(
                fake,
                inputs.target,
                source=transform.of_source(inputs.source),
                discriminate_fake=lambda: fake_outputs,
                discriminate_target=lambda: target_outputs,
                style=style,
                weights=LossWeights.of(inputs.weights, transform.of_source),
            )
            return self._generator_loss(translation), discriminator_loss

    def discriminator_update(self, passes: Passes[ModelInputs]) -> None:
        """Update the discriminator alone, for more of its updates than of the generator's."""
        for inputs in synchronized_passes(passes, self.generator, self.discriminator):
            self._discriminator_pass(inputs, share=1 / len(passes), keeps_graph=False)
        self.optimizers["discriminator"].step("discriminator", self.means)

    def alternating_update(self, passes: Passes[ModelInputs]) -> None:
        """Make pix2pix's update: the discriminator steps first, then discriminates the fake again for the generator.

        With one pass the fake is made once. With more it is made twice, since several graphs would cost the memory that
        accumulation is there to save.
        """
        keeps_graph = len(passes) == 1
        kept: Translation | None = None
        for inputs in synchronized_passes(passes, self.generator, self.discriminator):
            made = self._discriminator_pass(inputs, share=1 / len(passes), keeps_graph=keeps_graph)
            kept = made if keeps_graph else None
        self.optimizers["discriminator"].step("discriminator", self.means)
        for inputs in synchronized_passes(passes, self.generator, self.discriminator):
            self._generator_pass(inputs, share=1 / len(passes), kept=kept)
        self.optimizers["generator"].step("generator", self.means)

    def _discriminator_pass(self, inputs: ModelInputs, share: float, keeps_graph: bool) -> Translation:
        with self.precision.autocast():
            with torch.set_grad_enabled(keeps_graph):
                fake, style = translate(self.generator.network, inputs.generator_inputs)
            shown = self.pool.exchange(inputs.source, fake) if self.pool else (inputs.source, fake.detach())
            transform = self.augmentation.draw(inputs.target)
            fakes, reals = self._judge.outputs(transform, shown, (inputs.source, inputs.target))
            loss = self._judge.loss_of(inputs.source, fake, inputs.target, transform, fakes=fakes, reals=reals)
        self.optimizers["discriminator"].backward(loss * share)
        return fake, style

    def _generator_pass(self, inputs: ModelInputs, share: float, kept: Translation | None) -> None:
        # The bare discriminator: its own gradients are not wanted, so no process waits for them.
        discriminator = self.discriminator.compute_copy
        transform = self.augmentation.draw(inputs.target)
        source = transform.of_source(inputs.source)

        def discriminate_target() -> Outputs:
            with torch.no_grad():
                outputs: Outputs = discriminator(source, transform.of_image(inputs.target))
            return outputs

        with self.precision.autocast():
            fake, style = kept or translate(self.generator.network, inputs.generator_inputs)
            translation = LossInputs(
                fake,
                inputs.target,
                source=source,
                discriminate_fake=lambda: discriminator(source, transform.of_image(fake)),
                discriminate_target=discriminate_target,
                style=style,
                weights=LossWeights.of(inputs.weights, transform.of_source),
            )
            loss = self._generator_loss(translation)
        self.optimizers["generator"].backward(loss * share)

    @property
    def _judge(self) -> Judge:
        return Judge(self.discriminator, self.discriminator_objective, self.joint_discrimination, self.means)

    def _generator_loss(self, translation: LossInputs) -> Tensor:
        terms = self.objective(translation)
        self.means.add(terms, "loss/G/")
        return terms["total"]
