"""The discriminator's output for pairs that it is not trained on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from data.batch import Batch, Sample
from data.conditioning import Conditioning
from losses.adversarial import mean_logits
from losses.augmentation import Augmentation
from models.running_statistics import batch_norms
from utils.precision import Precision


@dataclass(frozen=True)
class ValidationLogits:
    """Computes the discriminator's mean output for sources and their targets, and leaves the training as it is.

    discriminator: computes as in training, but in this process alone.
    augmentation: that of the training, without which the samples would be unlike all that the discriminator knows.
    min_side: the shortest side of an image of which something is left at its lowest resolution, in pixels.
    """

    discriminator: nn.Module
    augmentation: Augmentation
    conditioning: Conditioning
    precision: Precision
    device: torch.device
    min_side: int

    def takes(self, sample: Sample) -> bool:
        """Return whether the sample, which must have a target, is large enough."""
        assert sample.target is not None
        return min(sample.target.shape[-2:]) >= self.min_side

    def mean(self, samples: Sequence[Sample], step: int) -> float | None:
        """Return the mean over patches, then scales, then samples that are large enough; None where none is.

        step: seed of the augmentation, so that the training's random state stays as it is.
        """
        generator = torch.Generator(self.device).manual_seed(step)
        values = [self._mean_of(sample, generator) for sample in samples if self.takes(sample)]
        return torch.stack(values).mean().item() if values else None

    @torch.inference_mode()
    def _mean_of(self, sample: Sample, generator: torch.Generator) -> Tensor:
        """Return the mean over patches, then scales, 0-d float32 on the device."""
        batch = Batch.of([sample]).to(self.device)
        target = self.conditioning.target(batch)
        transform = self.augmentation.draw(target, generator)
        with unchanged(self.discriminator), self.precision.autocast():
            source = transform.of_source(self.conditioning.of_discriminator(self.conditioning(batch)))
            outputs = self.discriminator(source, transform.of_image(target))
        return mean_logits([scale.logits.float() for scale in outputs])  # the gap can be smaller than bfloat16's steps


@contextmanager
def unchanged(network: nn.Module) -> Iterator[None]:
    """Let passes of a network change none of its buffers.

    Spectral norm makes no step of its power iteration. Batch norm normalises by the images' own statistics, as in
    training: the running ones mix those of real and translated images, and are neither used nor updated.
    """
    modes = {module: module.training for module in network.modules()}
    norms = batch_norms(network)
    statistics = [(norm.running_mean, norm.running_var) for norm in norms]
    network.eval()
    for norm in norms:
        norm.running_mean = norm.running_var = None
    try:
        yield
    finally:
        for norm, (mean, variance) in zip(norms, statistics, strict=True):
            norm.running_mean, norm.running_var = mean, variance
        for module, mode in modes.items():
            module.training = mode
