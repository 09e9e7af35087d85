"""Training on pairs: the discriminator sees the source and the image (pix2pixHD, SPADE, OASIS)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from configs import build
from configs.schema import Config
from data.batch import Batch
from data.conditioning import PixelWeightFactors
from losses.objective import GeneratorObjective, LossInputs
from losses.shift_search import ShiftSearch
from metrics.evaluator import Evaluator
from models.style_encoder import StyledImages, StyleDistribution
from training.methods.builder import MethodBuilder
from training.methods.discriminator import TrainedDiscriminator
from training.methods.image_pool import ImagePool
from training.methods.method import Averages, Method
from training.trained_network import TrainedNetwork, synchronized_passes
from training.validation import Validation, ValidationLogits
from utils.distributed import World
from utils.errors import ConfigError

Translation = tuple[Tensor, StyleDistribution | None]
"""Translated images (N, C, H, W) in [-1, 1], and the distributions of their styles if an encoder computes them."""


@dataclass(frozen=True)
class ModelInputs:
    """The float tensors of one pass.

    source: Condition that the discriminator sees, (N, C, H, W) float32, of the target's size.
    target: (N, 3 or 1, H, W) float32 in [-1, 1].
    generator_inputs: Arguments of the generator: the source, and inputs for instance features or style.
    weights: Factors of the weights of the target's pixels.
    """

    source: Tensor
    target: Tensor
    generator_inputs: tuple[Tensor, ...]
    weights: PixelWeightFactors = field(default_factory=PixelWeightFactors)


def translate(generator: nn.Module, inputs: tuple[Tensor, ...]) -> Translation:
    """Return the generator's output as a translation."""
    made = generator(*inputs)
    return (made.images, made.style) if isinstance(made, StyledImages) else (made, None)


@dataclass
class Paired(Method):
    """One generator and one discriminator, with an update of both in one of two orders.

    optimizers: Groups "generator" and "discriminator".
    retain_graph: Whether the losses of both networks use one pass of the discriminator, whose graph is kept.
    search: Search for the parts of targets that the losses use. None: pairs are aligned.
    """

    generator: TrainedNetwork
    discriminator: TrainedDiscriminator
    objective: GeneratorObjective
    retain_graph: bool = True
    search: ShiftSearch | None = None

    @property
    def pools(self) -> list[tuple[ImagePool, str]]:
        """The discriminator's pool, if it has one."""
        return [(self.discriminator.pool, "target")] if self.discriminator.pool else []

    def inputs(self, batch: Batch) -> ModelInputs:
        """Return the float tensors of a batch of uint8 images and ids, on the batch's device."""
        conditioning, source = self.conditioning, self.conditioning(batch)
        return ModelInputs(
            source=conditioning.of_discriminator(source),
            target=conditioning.target(batch),
            generator_inputs=conditioning.training_inputs(batch, source),
            weights=conditioning.weights(batch),
        )

    def begin_step(self, step: int, planned_steps: int) -> None:
        """Also set the penalty of the search."""
        super().begin_step(step, planned_steps)
        if self.search is not None:
            self.search.follow_schedule(step / planned_steps)

    def update(self, groups: Sequence[Sequence[ModelInputs]]) -> None:
        """Update the generator from the last of `groups`, and the discriminator from each of them."""
        for passes in groups[:-1]:
            self.discriminator_update(passes)
        (self.joint_update if self.retain_graph else self.alternating_update)(groups[-1])

    def joint_update(self, passes: Sequence[ModelInputs]) -> None:
        """Make pix2pixHD's update: the losses of both networks use one pass of the discriminator.

        Both steps follow both backward passes, because a step changes weights that the graph needs.
        """
        for inputs in synchronized_passes(passes, *self.networks.values()):
            self._joint_pass(inputs, share=1 / len(passes))
        self.optimizers["discriminator"].step("discriminator", self.means)
        self.optimizers["generator"].step("generator", self.means)

    def _joint_pass(self, inputs: ModelInputs, share: float) -> None:
        of_generator, of_discriminator = self.losses(inputs)  # local, so that the graph is freed before the next pass
        self.optimizers["discriminator"].backward(of_discriminator * share, retain_graph=True)
        self.optimizers["generator"].backward(of_generator * share)

    def losses(self, inputs: ModelInputs) -> tuple[Tensor, Tensor]:
        """Return the losses of generator and discriminator, 0-d each, from one pass of each with the same weights."""
        judge, source, target = self.discriminator, inputs.source, inputs.target
        with self.precision.autocast():
            fake, style = translate(self.generator.network, inputs.generator_inputs)
            earlier = [judge.shown(source, fake)] if judge.pool else []
            transform = judge.augmentation.draw(target)
            fakes, reals, *shown = judge.outputs(transform, (source, fake), (source, target), *earlier)
            loss = judge.loss_of(source, fake, target, transform, fakes=shown[0] if shown else fakes, reals=reals)
            made = self._compared(inputs, fake, transform=transform, style=style)
            of_target = made.discriminate_target if self.search else lambda: reals  # `reals` belong to the given target
            made = replace(made, discriminate_fake=lambda: fakes, discriminate_target=of_target)
            return self._generator_loss(made), loss

    def discriminator_update(self, passes: Sequence[ModelInputs], *, keeps_graph: bool = False) -> Translation:
        """Update only the discriminator. Return the translation of the last pass, with its graph if `keeps_graph`."""
        made: Translation
        for inputs in synchronized_passes(passes, *self.networks.values()):
            with self.precision.autocast():
                with torch.set_grad_enabled(keeps_graph):
                    made = translate(self.generator.network, inputs.generator_inputs)
                loss = self.discriminator.loss(inputs.source, made[0], inputs.target)
            self.optimizers["discriminator"].backward(loss * (1 / len(passes)))
        self.optimizers["discriminator"].step("discriminator", self.means)
        return made

    def alternating_update(self, passes: Sequence[ModelInputs]) -> None:
        """Make pix2pix's update: the discriminator steps first, and then judges the translation for the generator.

        With several passes each translation is computed twice, because several graphs would need too much memory.
        """
        is_single = len(passes) == 1
        made = self.discriminator_update(passes, keeps_graph=is_single)
        for inputs in synchronized_passes(passes, *self.networks.values()):
            with self.precision.autocast():
                if not is_single:
                    made = translate(self.generator.network, inputs.generator_inputs)
                fake, style = made
                loss = self._generator_loss(self._compared(inputs, fake, style=style))
            self.optimizers["generator"].backward(loss * (1 / len(passes)))
        self.optimizers["generator"].step("generator", self.means)

    def _compared(self, inputs: ModelInputs, fake: Tensor, **more: Any) -> LossInputs:
        """Return the inputs of the generator's losses, with the match of the target if there is a search."""
        target, weights = inputs.target, inputs.weights
        if self.search is not None:
            match = self.search(fake, target, weights.of_target)
            self.means.add(match.means, "alignment/")
            target, weights = match.target, weights._replace(of_target=match.weights)
        return self.discriminator.loss_inputs(inputs.source, fake, target, weights=weights.product, **more)

    def _generator_loss(self, translation: LossInputs) -> Tensor:
        terms = self.objective(translation)
        self.means.add(terms, "loss/G/")
        return terms["total"]

    def build_validation(self, averages: Averages, of_sources: Evaluator, **shared: Any) -> Validation:
        """Return the validation, which compares each translation with its target."""
        predictor, judge = self.predictor(averages), self.discriminator
        logits = ValidationLogits(judge.trained.compute_copy, judge.augmentation, predictor, judge.min_side)
        return Validation(predictor=predictor, logits=logits, **shared)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the pool, if there is one."""
        return {"pool": self.discriminator.pool.state_dict()} if self.discriminator.pool else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the state that `state_dict` returned. A pool that it lacks is empty."""
        if self.discriminator.pool:
            self.discriminator.pool.load_state_dict(state.get("pool", []), self.device)


def build_paired(config: Config, world: World) -> Paired:
    """Return networks, optimizers and losses with initial weights, on the device of `world`."""
    if config.train.pool_size and world.size > 1:
        expected = "0 with several processes. Each process would have its own pool"
        raise ConfigError(f"train.pool_size is {config.train.pool_size}, expected {expected}.")
    loss, reach = config.loss, config.loss.shift_reach
    torch.manual_seed(config.run.seed)
    builder = MethodBuilder(config, world)
    modules = build.build_generator(config), build.build_discriminator(config)
    with world.main_first():
        objective = build.build_generator_objective(config, world.device)
    torch.manual_seed(config.run.seed + world.rank)  # noise differs by process
    generator, discriminator = builder.network(modules[0], "generator"), builder.discriminator(modules[1])
    return Paired(
        generator=generator,
        discriminator=discriminator,
        optimizers={
            "generator": builder.group({"generator": generator}),
            "discriminator": builder.group({"discriminator": discriminator.trained}),
        },
        objective=objective,
        retain_graph=config.train.retain_graph,
        search=ShiftSearch(reach, loss.shift_patch, loss.shift_penalty, world.device) if reach else None,
        progress="l1_shifted" if config.measured_shift_reach else "l1",
        **builder.common,
    )
