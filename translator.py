"""A generator at work: samples in, 8-bit images out; shared by training's validation and by test.py."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from data.batch import Batch, Sample
from data.conditioning import Conditioning, images_to_uint8
from utils.label_colors import colorize
from utils.precision import Precision


@dataclass(frozen=True)
class Translator:
    """Translates batches with one generator, as evaluation needs it.

    weights_dtype: the dtype of the generator's weights; its input is cast to that.
    colors: (K, 3) uint8 colours of the classes; unused where sources are RGB images.
    """

    generator: nn.Module
    conditioning: Conditioning
    precision: Precision
    weights_dtype: torch.dtype
    device: torch.device
    colors: Tensor

    @torch.inference_mode()
    def translate(self, batch: Batch) -> Tensor:
        """(N, 3, H, W) uint8 images on the CPU; leaves the generator in the mode it was in."""
        was_training = self.generator.training
        self.generator.eval()
        source = self.conditioning(batch.to(self.device))
        with self.precision.autocast():
            fake = self.generator(source.to(self.weights_dtype))
        self.generator.train(was_training)
        return images_to_uint8(fake).cpu()

    def show_source(self, sample: Sample) -> Tensor:
        """The source as (3, H, W) uint8 RGB, a label map in its colours."""
        return colorize(sample.source, self.colors) if self.conditioning.n_classes else sample.source
