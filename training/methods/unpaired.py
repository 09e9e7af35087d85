"""The parts that the methods without pairs share: their passes, and discriminators that see images alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from configs import build
from configs.schema import Config, LossConfig
from data.batch import Batch, Sample
from data.conditioning import weights_of_classes
from losses.objective import DiscriminatorObjective
from losses.pixel_weights import PixelWeights
from training.methods.judge import Judge
from training.methods.method import Averages, Method
from training.validation import UnpairedValidation, Validation
from utils.device import cpu_has_avx2_alone


class Pair(NamedTuple):
    """Images of the two sides that do not belong together: (N, C, H, W) float32 in [-1, 1] each.

    outside: weights of the sources' pixels, 0 where translations may differ from these; None: they may everywhere.
    """

    source: Tensor
    target: Tensor
    outside: PixelWeights | None = None

    def outside_mask(self, fake: Tensor) -> dict[str, Tensor]:
        """Return the L1 between sources and translations outside the classes that may change, 0-d, if it is wanted."""
        return {"outside_mask": self.outside.mean((fake - self.source).abs())} if self.outside else {}


def layout_on_cpu() -> torch.memory_format:
    """Return the memory layout in which a CPU makes a step without pairs in the least time, by measurement."""
    return torch.contiguous_format if cpu_has_avx2_alone() else torch.channels_last


@dataclass
class ImageDiscriminator(Judge):
    """A discriminator of images alone, with its loss and the one that it gives a generator."""

    objective: DiscriminatorObjective

    def adversarial_loss(self, fake: Tensor) -> Tensor:
        """Return the generator's loss for a translation, 0-d.

        By the bare network: its own gradients are not wanted, so no process waits for them.
        """
        images = self.augmentation.draw(fake).of_image(fake)
        logits = [scale.logits for scale in self.trained.compute_copy(fake[:, :0], images)]
        return self.objective.adversarial.generator(logits)

    def loss(self, real: Tensor, fake: Tensor) -> Tensor:
        """Return the discriminator's loss, 0-d, for real images and translations, of which no gradient is wanted."""
        fake, transform = fake.detach(), self.augmentation.draw(real)
        if self.pool:
            _, fake = self.pool.exchange(fake[:, :0], fake)
        fakes, reals = self.outputs(transform, (fake[:, :0], fake), (real[:, :0], real))
        return self.loss_of(real[:, :0], fake, real, transform, fakes=fakes, reals=reals)


@dataclass
class Unpaired(Method):
    """A method whose images of the two sides do not belong together; `loss` has weights of its losses."""

    progress = "swd"

    loss: LossConfig

    def inputs(self, batch: Batch) -> Pair:
        """Return the float tensors of a batch, on its device."""
        images, labels = (self.conditioning(batch), self.conditioning.target(batch)), batch.labels
        if labels is None:
            return Pair(*images)
        weights = weights_of_classes(labels, self.conditioning.class_weights, *labels.shape[-2:])
        return Pair(*images, PixelWeights(weights))

    def build_validation(self, config: Config, split: str, samples: Sequence[Sample], averages: Averages) -> Validation:
        """Return the validation of translations as a set, in both directions where both are trained."""
        evaluator = build.build_evaluator(config, self.device, len(samples))
        first, *others = (self.predictor(config, averages, direction) for direction in self.translators)
        return UnpairedValidation(
            split,
            samples,
            first,
            evaluator,
            logits=None,
            activations=config.log.activations,
            back=others[0] if others else None,
            of_sources=build.source_evaluator(config, evaluator),
        )
