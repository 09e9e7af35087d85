"""Training on pairs. The discriminator sees a source with its target or translation (pix2pixHD, SPADE, OASIS)."""

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
"""Translated images (N, C, H, W) in [-1, 1], and their style distributions, or None without a style encoder."""


@dataclass(frozen=True)
class ModelInputs:
    """The float tensors of one forward pass.

    source: Source for the discriminator, (N, C, H, W) float32, with the height and width of the target.
    target: (N, 3 or 1, H, W) float32 in [-1, 1].
    generator_inputs: Arguments of the generator: the source, and inputs for instance features or style.
    weights: Weight factors of the target's pixels.
    """

    source: Tensor
    target: Tensor
    generator_inputs: tuple[Tensor, ...]
    weights: PixelWeightFactors = field(default_factory=PixelWeightFactors)


def translate(generator: nn.Module, inputs: tuple[Tensor, ...]) -> Translation:
    """Translate with the generator."""
    output = generator(*inputs)
    return (output.images, output.style) if isinstance(output, StyledImages) else (output, None)


@dataclass
class Paired(Method):
    """The training method for pairs, with one generator and one discriminator.

    optimizers: Groups "generator" and "discriminator".
    retain_graph: Whether both losses share one discriminator pass (pix2pixHD). If not, the discriminator steps first.
    search: Search that aligns each target with its translation for the losses. None: Pairs are aligned already.
    """

    generator: TrainedNetwork
    discriminator: TrainedDiscriminator
    objective: GeneratorObjective
    retain_graph: bool = True
    search: ShiftSearch | None = None

    @property
    def pools(self) -> list[tuple[ImagePool, str]]:
        """The image pool of the discriminator, or an empty list without a pool."""
        return [(self.discriminator.pool, "target")] if self.discriminator.pool else []

    def inputs(self, batch: Batch) -> ModelInputs:
        """Convert the images and ids of a batch to float tensors on the same device."""
        conditioning, source = self.conditioning, self.conditioning(batch)
        return ModelInputs(
            source=conditioning.of_discriminator(source),
            target=conditioning.target(batch),
            generator_inputs=conditioning.training_inputs(batch, source),
            weights=conditioning.weights(batch),
        )

    def begin_step(self, step: int, planned_steps: int) -> None:
        """Prepare a step as in `Method`, and set the penalty of the shift search."""
        super().begin_step(step, planned_steps)
        if self.search is not None:
            self.search.follow_schedule(step / planned_steps)

    def update(self, groups: Sequence[Sequence[ModelInputs]]) -> None:
        """Update the discriminator once with each group of passes, and the generator once with the last group."""
        for passes in groups[:-1]:
            self.discriminator_update(passes)
        (self.joint_update if self.retain_graph else self.alternating_update)(groups[-1])

    def joint_update(self, passes: Sequence[ModelInputs]) -> None:
        """Update both networks as pix2pixHD does. Their losses share one pass of the discriminator.

        The optimizers step after both backward passes, because a step changes weights that the shared graph needs.
        """
        for inputs in synchronized_passes(passes, *self.networks.values()):
            self._joint_pass(inputs, share=1 / len(passes))
        self.optimizers["discriminator"].step("discriminator", self.means)
        self.optimizers["generator"].step("generator", self.means)

    def _joint_pass(self, inputs: ModelInputs, share: float) -> None:
        g_loss, d_loss = self.losses(inputs)  # local variables, so that the graph is freed before the next pass
        self.optimizers["discriminator"].backward(d_loss * share, retain_graph=True)
        self.optimizers["generator"].backward(g_loss * share)

    def losses(self, inputs: ModelInputs) -> tuple[Tensor, Tensor]:
        """Return the losses of generator and discriminator, 0-d each, from one pass through each network."""
        judge, source, target = self.discriminator, inputs.source, inputs.target
        with self.precision.autocast():
            fake, style = translate(self.generator.network, inputs.generator_inputs)
            earlier = [judge.shown(source, fake)] if judge.pool else []
            transform = judge.augmentation.draw(target)
            fakes, reals, *shown = judge.outputs(transform, (source, fake), (source, target), *earlier)
            loss = judge.loss_of(source, fake, target, transform, fakes=shown[0] if shown else fakes, reals=reals)
            made = self._compared(inputs, fake, transform=transform, style=style)
            of_target = made.discriminate_target if self.search else lambda: reals  # a search shifts the target
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
        """Update both networks as pix2pix does. The generator's loss uses the discriminator after its step.

        Translate twice if there are several passes, because keeping several graphs would need too much memory.
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
        """Return the inputs of the generator's losses. A shift search aligns the target first."""
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
        """Return the state of the image pool, or an empty dict without a pool."""
        return {"pool": self.discriminator.pool.state_dict()} if self.discriminator.pool else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the result of `state_dict`. If `state` has no pool, the pool starts empty."""
        if self.discriminator.pool:
            self.discriminator.pool.load_state_dict(state.get("pool", []), self.device)


def build_paired(config: Config, world: World) -> Paired:
    """Build networks with initial weights, their optimizers and losses on the device of `world`."""
    if config.train.pool_size and world.size > 1:
        expected = "0 with several processes. Each process would have its own pool"
        raise ConfigError(f"train.pool_size is {config.train.pool_size}, expected {expected}.")
    loss, reach = config.loss, config.loss.shift_reach
    torch.manual_seed(config.run.seed)
    builder = MethodBuilder(config, world)
    modules = build.build_generator(config), build.build_discriminator(config)
    with world.main_first():
        objective = build.build_generator_objective(config, world.device)
    torch.manual_seed(config.run.seed + world.rank)  # each process draws different noise
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
        progress="l1_shifted" if config.measured_shift_reach else "l1_weighted" if config.data.mask_folder else "l1",
        **builder.common,
    )
