"""A generator at work: samples in, 8-bit images out; shared by training's validation and by test.py."""

import zlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Batch, Sample
from data.conditioning import Conditioning, images_to_uint8
from models.feature_clusters import FeatureClusters
from utils.label_colors import colorize
from utils.precision import Precision


@dataclass(frozen=True)
class Look:
    """Instance features drawn from clusters: the same for an image of the same name and seed, whatever is beside it."""

    clusters: FeatureClusters
    seed: int
    has_classes: bool
    """Whether sources are label maps; RGB images have one class."""

    def __call__(self, batch: Batch, regions: Tensor) -> Tensor:
        """(N, C, H, W) float32 features for regions (N, 1, H, W)."""
        features = []
        for name, source, region in zip(batch.names, batch.source, regions, strict=True):
            rng = np.random.default_rng(image_seed(self.seed, name))
            classes = source if self.has_classes else torch.zeros_like(region)
            features.append(self.clusters.sample(classes[None], region[None], rng))
        return torch.cat(features)


def image_seed(seed: int, name: str) -> int:
    """A seed for what is drawn for one image, whatever is translated beside it."""
    return zlib.crc32(f"{seed}/{name}".encode())


@dataclass(frozen=True)
class Translator:
    """Translates batches with one generator, as evaluation needs it.

    colors: (K, 3) uint8 colours of the classes; unused where sources are RGB images.
    look: where instance features come from, if not from the samples.
    noise_seed: translate as the generator was trained, with dropout as noise, drawn by this seed and the image's name,
        and batch norm by the image's own statistics (pix2pix's way to test). None: evaluation mode.
    """

    generator: nn.Module
    conditioning: Conditioning
    precision: Precision
    device: torch.device
    colors: Tensor
    look: Look | None = None
    noise_seed: int | None = None

    @torch.inference_mode()
    def translate(self, batch: Batch) -> Tensor:
        """(N, 3, H, W) uint8 images on the CPU; leaves the generator in the mode it was in. With noise N is 1."""
        was_training = self.generator.training
        self.generator.train(self.noise_seed is not None)
        if self.noise_seed is not None:
            assert len(batch.names) == 1, batch.names
            torch.manual_seed(image_seed(self.noise_seed, batch.names[0]))
        with self.precision.autocast():
            fake = self.generator(*self._generator_inputs(batch.to(self.device)))
        self.generator.train(was_training)
        return images_to_uint8(fake).expand(-1, 3, -1, -1).cpu()  # grey as RGB

    def _generator_inputs(self, batch: Batch) -> tuple[Tensor, ...]:
        condition = self.conditioning(batch)
        if self.look is None:
            return self.conditioning.generator_inputs(batch, condition)
        features = self.look(batch, self.conditioning.region_map(batch))
        return (torch.cat([condition, features], dim=1),)

    def show_source(self, sample: Sample) -> Tensor:
        """The source as (3, H, W) uint8 RGB, a label map in its colours."""
        return colorize(sample.source, self.colors) if self.conditioning.n_classes else sample.source
