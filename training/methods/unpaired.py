"""Inputs and validation of training methods without pairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from configs import build
from configs.schema import Config
from data.batch import Batch, Sample
from data.conditioning import weights_of_classes
from losses.pixel_weights import PixelWeights
from training.methods.method import Averages, Method
from training.validation import UnpairedValidation, Validation
from utils.device import cpu_has_avx2_alone


class Pair(NamedTuple):
    """Images of two domains that do not belong together: (N, C, H, W) float32 in [-1, 1].

    outside: Weights of the sources' pixels. Translations may change pixels of weight 0. None: they may change all.
    """

    source: Tensor
    target: Tensor
    outside: PixelWeights | None = None


def layout_on_cpu() -> torch.memory_format:
    """Return the memory layout with the fastest training step without pairs on a CPU."""
    return torch.contiguous_format if cpu_has_avx2_alone() else torch.channels_last


@dataclass
class Unpaired(Method):
    """A method whose images of the two domains do not belong together."""

    progress = "swd"

    def inputs(self, batch: Batch) -> Pair:
        """Return the float tensors of a batch on its device."""
        images, labels = (self.conditioning(batch), self.conditioning.target(batch)), batch.labels
        if labels is None:
            return Pair(*images)
        weights = weights_of_classes(labels, self.conditioning.class_weights, *labels.shape[-2:])
        return Pair(*images, PixelWeights(weights))

    def build_validation(self, config: Config, split: str, samples: Sequence[Sample], averages: Averages) -> Validation:
        """Return the validation, which compares translations with real images as sets, in all trained directions."""
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
