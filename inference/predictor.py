"""A generator at work: samples in, 8-bit images out; shared by training's validation and by test.py."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Batch, Sample
from data.conditioning import Conditioning, images_to_uint8
from inference.tiling import TiledNetwork
from inference.window import Window
from models.feature_clusters import FeatureClusters
from models.feature_encoder import average_in_instances
from utils.palette import colorize
from utils.precision import Precision


@dataclass(frozen=True)
class FeatureSampler:
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
class Tiles:
    """What computes tile by tile.

    generator: without its feature encoder.
    encoder: what the feature encoder does before it averages; None where there is none.
    """

    generator: TiledNetwork
    encoder: TiledNetwork | None


@dataclass(frozen=True)
class Predictor:
    """Translates batches with one generator, as evaluation needs it.

    colors: (K, 3) uint8 colours of the classes; unused where sources are RGB images.
    look: where instance features come from, if not from the samples.
    noise_seed: translate as the generator was trained, with dropout as noise, drawn by this seed and the image's name,
        and batch norm by the image's own statistics (pix2pix's way to test). None: evaluation mode.
    tiles: what takes the generator's place for images that are too large for the memory.
    flips: translate the mirrored images too, and take the mean of both.
    """

    generator: nn.Module
    conditioning: Conditioning
    precision: Precision
    device: torch.device
    colors: Tensor
    look: FeatureSampler | None = None
    noise_seed: int | None = None
    tiles: Tiles | None = None
    flips: bool = False

    @torch.inference_mode()
    def translate(self, batch: Batch) -> Tensor:
        """(N, 3, H, W) uint8 images on the CPU; leaves the generator in the mode it was in.

        With noise or tiles N is 1.
        """
        was_training = self.generator.training
        self.generator.train(self.noise_seed is not None)
        if self.noise_seed is not None:
            assert len(batch.names) == 1, batch.names
            torch.manual_seed(image_seed(self.noise_seed, batch.names[0]))
        fake = self._generate(batch)
        if self.flips:
            mirrored = self._generate(_with_maps(batch, lambda images: images.flip(-1)))
            fake = (fake.float() + mirrored.flip(-1).float()) / 2
        self.generator.train(was_training)
        return images_to_uint8(fake).expand(-1, 3, -1, -1).cpu()  # grey as RGB

    def _generate(self, batch: Batch) -> Tensor:
        with self.precision.autocast():
            if self.tiles is not None and max(batch.source.shape[-2:]) > self.tiles.generator.tile:
                return self._generate_tiled(batch, self.tiles)
            fake: Tensor = self.generator(*self._generator_inputs(batch.to(self.device)))
            return fake

    def _generator_inputs(self, batch: Batch) -> tuple[Tensor, ...]:
        condition = self.conditioning(batch)
        if self.look is None:
            return self.conditioning.generator_inputs(batch, condition)
        features = self.look(batch, self.conditioning.region_map(batch))
        return (torch.cat([condition, features], dim=1),)

    def _generate_tiled(self, batch: Batch, tiles: Tiles) -> Tensor:
        """As the generator, with no more than the maps themselves of the whole image in memory."""
        height, width = batch.source.shape[-2:]
        whole = Window(0, height, 0, width)
        features = self._whole_features(batch, tiles)

        def read(window: Window) -> Tensor:
            seen = window.grown(1, whole)  # to know where instances end, the next pixel is needed
            part = _with_maps(batch, seen.cut).to(self.device)
            condition = self.conditioning(part)
            if features is not None:
                condition = torch.cat([condition, seen.cut(features).to(self.device)], dim=1)
            elif self.conditioning.features == "precomputed":
                (condition,) = self.conditioning.generator_inputs(part, condition)
            return window.seen_from(seen).cut(condition)

        return tiles.generator(read, height, width)

    def _whole_features(self, batch: Batch, tiles: Tiles) -> Tensor | None:
        """(1, C, H, W) instance features on the CPU, drawn or encoded; None where there are none, or they are given."""
        if self.look is not None:
            return self.look(batch, self.conditioning.region_map(batch))
        if tiles.encoder is None:
            return None

        def read_target(window: Window) -> Tensor:
            return self.conditioning.target(_with_maps(batch, window.cut).to(self.device))

        encoded = tiles.encoder(read_target, *batch.source.shape[-2:])
        return average_in_instances(encoded, self.conditioning.region_map(batch))

    def show_source(self, sample: Sample) -> Tensor:
        """The source as (3, H, W) uint8 RGB, a label map in its colours."""
        return colorize(sample.source, self.colors) if self.conditioning.n_classes else sample.source


def _with_maps(batch: Batch, function: Callable[[Tensor], Tensor]) -> Batch:
    """The batch with each of its maps replaced by what `function` makes of it."""

    def of(images: Tensor | None) -> Tensor | None:
        return None if images is None else function(images)

    return replace(
        batch,
        source=function(batch.source),
        instances=of(batch.instances),
        target=of(batch.target),
        features=of(batch.features),
    )
