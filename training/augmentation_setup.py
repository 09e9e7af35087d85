"""From a configuration to the controller of the augmentation."""

from dataclasses import replace

from torch import Tensor

from configs import build
from configs.schema import Config
from configs.splits import TRAIN
from data.loader import read_fixed_samples
from models.style_encoder import predicting_part
from training.augmentation_controller import AugmentationController, change_by_plan
from training.overfitting import Overfitting
from training.run_state import LoopState
from training.splits import Splits
from training.update import AdversarialUpdate
from training.validation import Validation
from utils.distributed import World
from utils.errors import ConfigError


def build_controller(
    config: Config,
    world: World,
    splits: Splits,
    state: LoopState,
    update: AdversarialUpdate,
    validation: Validation | None,
) -> AugmentationController | None:
    """Return the controller of the augmentation; None where its probability is fixed.

    Raises:
        ConfigError: the validation samples are trained on.
    """
    probability, target = update.augmentation.probability, config.augmentation.target
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
        n_samples, preprocessing = len(validation.samples), build.build_preprocessing(config)
        overfitting = Overfitting(
            validation.logits,
            replace(validation.predictor, generator=predicting_part(update.generator.module)),
            read_fixed_samples(splits.train, preprocessing, n_samples, config.data.on_bad_sample),
            validation.samples,
        )
    planned_steps = config.total_epochs * state.batches_per_epoch / config.batches_per_step
    change = change_by_plan(config.log.images_every_steps, planned_steps)
    return AugmentationController(world, overfitting, probability, target, change)
