"""The probability of augmentation, controlled by how far the discriminator overfits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from data.batch import Batch, Sample
from inference.predictor import Predictor
from training.validation import ValidationLogits
from utils.distributed import World

MOST = 0.8  # above it the generator begins to draw augmented images (Karras et al. 2020, section 2.2)
RAMP_SHARE = 0.05  # of the planned samples, in which the probability can rise by 1
MOST_CHANGE = 0.1  # where validations are rare


@dataclass(frozen=True)
class Overfitting:
    """Measures how far the discriminator overfits: r_v of Karras et al. 2020, section 3.1, equation 1.

    predictor: of the generator that is trained. train, validation: samples of either split, with targets.
    """

    logits: ValidationLogits
    predictor: Predictor
    train: Sequence[Sample]
    validation: Sequence[Sample]

    def measure(self, step: int) -> float:
        """Return (real - validation) / (real - fake) of mean logits.

        It is 0 where the discriminator takes new pairs for real ones, and 1 where it takes them for translations. It is
        also 0 where training pairs do not look more real than translations, and NaN where all samples are too small.
        The random state of the training does not change.
        """
        fakes = [replace(sample, target=self.predictor.translate(Batch.of([sample]))[0]) for sample in self.train]
        means = [self.logits.mean(samples, step) for samples in (self.train, self.validation, fakes)]
        real, validation, fake = (math.nan if mean is None else mean for mean in means)
        return 0.0 if real <= fake else (real - validation) / (real - fake)


@dataclass
class AugmentationController:
    """Adjusts the probability of augmentation at validations.

    overfitting: None on other processes than the main one, which measures alone.
    tensor: 0-d float32 on the device, the probability as the augmentation reads it, changed in place.
    target: the overfitting to hold. change: of the probability, each time; upwards where overfitting is above its
        target, downwards where it is below (Karras et al. 2020, section 3.1, whose code has no upper bound).
    """

    world: World
    overfitting: Overfitting | None
    tensor: Tensor
    target: float
    change: float
    probability: float = 0.0

    def adjust(self, step: int) -> dict[str, float]:
        """Measure and adjust, together with the other processes; return the probability and what was measured."""
        measured = self.world.gather(self.overfitting.measure(step) if self.overfitting else math.nan)[0]
        sign = (measured > self.target) - (measured < self.target)
        self._set(min(max(self.probability + sign * self.change, 0.0), MOST))
        return {"augmentation/probability": self.probability, "augmentation/overfitting": measured}

    def state_dict(self) -> dict[str, float]:
        """Return what changes."""
        return {"probability": self.probability}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Load what `state_dict` returned."""
        self._set(state["probability"])

    def _set(self, probability: float) -> None:
        self.probability = probability
        self.tensor.fill_(probability)
