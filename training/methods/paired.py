"""Training on pairs: one generator against one discriminator, which sees source and image (pix2pixHD, SPADE, OASIS)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from configs import build
from configs.evaluation import build_evaluator
from configs.image_sides import discriminated_side
from configs.schema import Config
from configs.splits import TRAIN
from data.batch import Batch, Sample
from data.conditioning import Conditioning
from data.loader import read_fixed_samples
from models.style_encoder import inference_network
from training.augmentation_controller import AugmentationController, Overfitting, change_by_plan
from training.diagnostics import Diagnostics
from training.image_pool import ImagePool
from training.loop_state import LoopState
from training.methods.method import Method, NetworkBuilder, StepBatches, Translator
from training.methods.paired_update import ConditionedPasses, ModelInputs, PairedUpdate, translate
from training.run_data import Splits
from training.validation import Validation, ValidationLogits
from utils.distributed import World
from utils.errors import ConfigError


@dataclass
class Paired(Method):
    """One generator and one discriminator.

    conditioning: turns batches into what both networks see.
    controller: of the probability of the augmentation; None where that is fixed.
    """

    progress = "l1"

    update: PairedUpdate
    conditioning: Conditioning
    diagnostics: Diagnostics
    controller: AugmentationController | None = None

    def __post_init__(self) -> None:
        self.networks = {"generator": self.update.generator, "discriminator": self.update.discriminator}
        self.optimizers = self.update.optimizers
        self.translators = {"AtoB": Translator("generator", self.conditioning)}
        self.precision, self.means = self.update.precision, self.update.means

    def step(self, batches: StepBatches) -> None:
        """Update the generator from the last of the groups of batches, and the discriminator from each of them."""
        self.update.step([ConditionedPasses(passes, self.conditioning) for passes in batches])

    def losses_of(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the losses of generator and discriminator for a batch on the device."""
        return self.update.losses(ModelInputs.of(batch, self.conditioning))

    @torch.no_grad()
    def pass_once(self, batch: Batch) -> None:
        """Translate a batch on the device, and discriminate the translations."""
        inputs = ModelInputs.of(batch, self.conditioning)
        with self.precision.autocast():
            fake, _ = translate(self.update.generator.compute_copy, inputs.generator_inputs)
            self.update.discriminator.compute_copy(inputs.source, fake)

    def build_validation(
        self,
        config: Config,
        world: World,
        splits: Splits,
        samples: list[Sample],
        state: LoopState,
        averages: Mapping[str, AveragedModel],
    ) -> Validation | None:
        """Return the validation against targets, and let it control the augmentation if a target of that is set."""
        validation = None
        if world.is_main:
            predictor = self.predictor(config, averages)
            logits = ValidationLogits(
                discriminator=self.update.discriminator.compute_copy,
                augmentation=self.update.augmentation,
                conditioning=self.conditioning,
                precision=self.precision,
                device=self.device,
                min_side=discriminated_side(config),
            )
            evaluator, shown = build_evaluator(config, self.device, len(samples)), config.log.activations
            validation = Validation(splits.validation, samples, predictor, evaluator, logits, activations=shown)
        self.controller = build_controller(self, config, world, splits, state, validation)
        return validation

    def adjust(self, step: int) -> Mapping[str, float]:
        """Adjust the probability of the augmentation to how far the discriminator overfits."""
        if self.controller is None:
            return {}
        self.controller.adjust(step)
        return self.controller.scalars

    def state_dict(self) -> dict[str, Any]:
        """Return the pool, and the probability of the augmentation."""
        state: dict[str, Any] = {"pool": self.update.pool.state_dict()} if self.update.pool else {}
        return state | ({"augmentation": self.controller.state_dict()} if self.controller else {})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned; a pool that is not there is empty."""
        if self.update.pool:
            self.update.pool.load_state_dict(state.get("pool", []), self.device)
        if self.controller and "augmentation" in state:
            self.controller.load_state_dict(state["augmentation"])


def build_paired(config: Config, world: World) -> Paired:
    """Return networks, optimizers and losses with initial weights, on the device of `world`.

    Raises:
        ConfigError, WeightsError: settings contradict the number of processes, or a loss lacks its weights.
    """
    if config.train.pool_size and world.size > 1:
        raise ConfigError(
            f"train.pool_size is {config.train.pool_size}, expected 0 with several processes: each would have its own"
        )
    torch.manual_seed(config.run.seed)
    builder = NetworkBuilder(config, world)
    modules = build.build_generator(config), build.build_discriminator(config)
    with world.main_first():
        objective = build.build_generator_objective(config, world.device)
    torch.manual_seed(config.run.seed + world.rank)  # noise differs by process
    generator, discriminator = builder.network(modules[0], "generator"), builder.network(modules[1], "discriminator")
    update = PairedUpdate(
        generator=generator,
        discriminator=discriminator,
        optimizers={
            "generator": builder.group({"generator": generator}),
            "discriminator": builder.group({"discriminator": discriminator}),
        },
        objective=objective,
        discriminator_objective=build.build_discriminator_objective(config),
        precision=builder.precision,
        joint_discrimination=config.discriminator.norm == "instance",
        retain_graph=config.train.retain_graph,
        augmentation=build.build_augmentation(config, world.device),
        pool=ImagePool(config.train.pool_size) if config.train.pool_size else None,
    )
    return Paired(update, build.build_conditioning(config), Diagnostics(config.loss.gan_mode))


def build_controller(
    method: Paired, config: Config, world: World, splits: Splits, state: LoopState, validation: Validation | None
) -> AugmentationController | None:
    """Return the controller of the augmentation; None where its probability is fixed.

    Raises:
        ConfigError: the validation samples are trained on.
    """
    probability, target = method.update.augmentation.probability, config.augmentation.target
    if target is None or not config.augmentation.policy:
        return None
    assert isinstance(probability, Tensor), probability
    if splits.validation == TRAIN:
        raise ConfigError(
            f"augmentation.target is {target:g}, expected null where validation samples are trained on: add a split "
            "val, or hold samples back with train.validation_share"
        )
    overfitting = None
    if validation:
        assert validation.logits is not None
        n_samples, preprocessing = len(validation.samples), build.build_preprocessing(config)
        overfitting = Overfitting(
            validation.logits,
            replace(validation.predictor, generator=inference_network(method.update.generator.module)),
            read_fixed_samples(splits.train, preprocessing, n_samples, config.data.on_bad_sample),
            validation.samples,
        )
    planned_steps = config.total_epochs * state.batches_per_epoch / config.batches_per_step
    change = change_by_plan(config.log.images_every_steps, planned_steps)
    return AugmentationController(world, overfitting, probability, target, change)
