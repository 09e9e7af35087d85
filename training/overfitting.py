"""How far the discriminator overfits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from data.batch import Batch, Sample
from inference.predictor import Predictor
from training.validation_logits import ValidationLogits


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
        """Return (real - validation) / (real - fake) of mean logits: 0 where new pairs pass for real, 1 for translated.

        0 too where training pairs do not look more real than translations; NaN where all samples are too small. The
        training's random state stays as it is.
        """
        fakes = [replace(sample, target=self.predictor.translate(Batch.of([sample]))[0]) for sample in self.train]
        means = [self.logits.mean(samples, step) for samples in (self.train, self.validation, fakes)]
        real, validation, fake = (math.nan if mean is None else mean for mean in means)
        return 0.0 if real <= fake else (real - validation) / (real - fake)
