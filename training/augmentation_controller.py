"""The probability of augmentation, controlled by how far the discriminator overfits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from data.batch import Batch, Sample
from training.validation import Validation
from utils.distributed import World

MOST = 0.8  # above it the generator begins to draw augmented images (Karras et al. 2020, section 2.2)
RAMP_SHARE = 0.05  # of the planned samples, in which the probability can rise by 1
MOST_CHANGE = 0.1  # where validations are rare


@dataclass
class AugmentationController:
    """Adjusts the probability of augmentation at validations.

    tensor: 0-d float32 on the device, the probability as the augmentation reads it, changed in place.
    target: the overfitting to hold. change: of the probability, each time; upwards where overfitting is above its
        target, downwards where it is below (Karras et al. 2020, section 3.1, whose code has no upper bound).
    generator: the one that is trained.
    validation: of the main process, which measures for all; None on the others.
    train: samples of the training split, with targets.
    """

    world: World
    tensor: Tensor
    target: float
    change: float
    generator: nn.Module
    validation: Validation | None
    train: Sequence[Sample] = ()
    probability: float = 0.0

    def adjust(self, step: int) -> dict[str, float]:
        """Measure and adjust, together with the other processes; return the probability and what was measured."""
        measured = self.world.gather(self.overfitting(self.validation, step) if self.validation else math.nan)[0]
        sign = (measured > self.target) - (measured < self.target)
        self._set(min(max(self.probability + sign * self.change, 0.0), MOST))
        return {"augmentation/probability": self.probability, "augmentation/overfitting": measured}

    def overfitting(self, validation: Validation, step: int) -> float:
        """Return how far the discriminator overfits: r_v of Karras et al. 2020, section 3.1, equation 1.

        That is (real - validation) / (real - fake) of mean logits: 0 where the discriminator takes new pairs for real
        ones, and 1 where it takes them for translations. It is also 0 where training pairs do not look more real than
        translations, and NaN where all samples are too small. The random state of the training does not change.
        """
        assert validation.logits is not None
        predictor = replace(validation.predictor, generator=self.generator)
        fakes = [replace(sample, target=predictor.translate(Batch.of([sample]))[0]) for sample in self.train]
        means = [validation.logits.mean(samples, step) for samples in (self.train, validation.samples, fakes)]
        real, new, fake = (math.nan if mean is None else mean for mean in means)
        return 0.0 if real <= fake else (real - new) / (real - fake)

    def state_dict(self) -> dict[str, float]:
        """Return what changes."""
        return {"probability": self.probability}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Load what `state_dict` returned."""
        self._set(state["probability"])

    def _set(self, probability: float) -> None:
        self.probability = probability
        self.tensor.fill_(probability)
