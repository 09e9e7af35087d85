"""Translates batches with a generator, for test.py and for the validation of a training."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Batch, Sample
from data.conditioning import Conditioning
from inference.pass_memory import bytes_of_pass
from inference.sampling import StyleImage, image_seed
from inference.tiling import TiledNetwork, Window, has_instance_norm
from models.instance_features import FeatureClusters, average_in_instances
from models.latent_inputs import MixedSeed, Seed, choose_style, draw_latents, takes_noise, takes_style
from utils.mapped_memory import mapped_tensor
from utils.pictures import colorize, picture, scaled_picture
from utils.precision import Precision


@dataclass(frozen=True)
class Tiles:
    """The networks that compute tile by tile.

    generator: the generator without its feature encoder.
    encoder: the feature encoder without the averaging over instances; None where there is none.
    """

    generator: TiledNetwork
    encoder: TiledNetwork | None


@dataclass(frozen=True)
class Predictor:
    """Translates batches with one generator.

    colors: (K, 3) uint8 colours of the classes; unused where sources are RGB images.
    clusters: from which the instance features of each image are drawn; None to take those of the samples.
    seed: of all that is drawn for an image, together with its name: features, noise channels, style, noise.
    toward: another seed, and how far noise channels and style go from the one to the other, 0 to 1.
    style: the image whose style all translations have; None to draw each style from N(0, I) by the seed.
    noise: whether to translate in training mode, with dropout as noise and batch norm by the image's own statistics, as
        pix2pix tests.
    tiles: replace the generator for images larger than a tile; None to translate every image in one piece.
    flips: whether to average the translations of an image and of its mirror image.
    target_dtype: type of the translated values, where targets are not 8-bit RGB.
    """

    generator: nn.Module
    conditioning: Conditioning
    precision: Precision
    device: torch.device
    colors: Tensor
    clusters: FeatureClusters | None = None
    seed: int = 0
    toward: tuple[int, float] | None = None
    style: StyleImage | None = None
    noise: bool = False
    tiles: Tiles | None = None
    flips: bool = False
    target_dtype: torch.dtype = torch.uint8

    def tiles_for(self, height: int, width: int) -> Tiles | None:
        """Return the tiles of a source of some sides; None if it is translated in one piece."""
        longest = max(height, width) * max(1.0, self.conditioning.target_scale)
        return self.tiles if self.tiles and longest > self.tiles.generator.at_once else None

    @property
    def uses_statistics_of_images(self) -> bool:
        """Whether instance norm uses the statistics of a whole image, and not of a window."""
        is_windowed = self.tiles is not None and self.tiles.generator.is_windowed
        return has_instance_norm(self.generator) and not is_windowed

    @property
    def has_noise_channels(self) -> bool:
        """Whether noise that is drawn by `seed` is an input of the generator."""
        return takes_noise(self.generator)

    @property
    def draws_style(self) -> bool:
        """Whether styles are drawn by `seed`."""
        return self.style is None and takes_style(self.generator)

    @property
    def takes_seed(self) -> bool:
        """Whether noise channels or styles are drawn by `seed`."""
        return self.has_noise_channels or self.draws_style

    @torch.inference_mode()
    def translate(self, batch: Batch) -> Tensor:
        """Return (N, 3, H, W) uint8 images, or values in the targets' range, on the CPU; the generator keeps its mode.

        With noise or tiles N must be 1.
        """
        if tiles := self.tiles_for(*batch.source.shape[-2:]):
            return self._in_tiles(batch, tiles)
        with self._drawn(batch.names):
            fake = self._generate(batch)
            if self.flips:
                mirrored = self._generate(batch.mapped(lambda images: images.flip(-1)))
                fake = (fake.float() + mirrored.flip(-1).float()) / 2
        return self.conditioning.pixels(fake, self.target_dtype).cpu()

    @torch.inference_mode()
    def bytes_per_pixel(self, part: Batch) -> float:
        """Return how much memory the translation of an image takes for each pixel, measured on a part of the image."""
        with self._drawn(part.names), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Using `torch.compile")  # the count runs the plain network
            return bytes_of_pass(lambda: self._generate(part)) / part.source[:, 0].numel()

    def _in_tiles(self, batch: Batch, tiles: Tiles) -> Tensor:
        """Return the translation of one image, computed tile by tile, in a temporary file."""
        folder = tiles.generator.folder
        height, width = (round(side * self.conditioning.target_scale) for side in batch.source.shape[-2:])
        with self._drawn(batch.names), self.precision.autocast():
            parts = self._parts(batch, tiles)
            if self.flips:
                first = _assembled(parts, folder, height, width)
                places = (
                    (window.mirrored(width), part) for window, part in self._parts(batch, tiles, is_mirrored=True)
                )
                parts = ((place, (place.cut(first) + part.flip(-1)) / 2) for place, part in places)
            values = ((window, self.conditioning.pixels(part, self.target_dtype).cpu()) for window, part in parts)
            return _assembled(values, folder, height, width)

    @contextmanager
    def _drawn(self, names: Sequence[str]) -> Iterator[None]:
        """Set the generator's mode, and draw noise and styles for some images; afterwards it has its mode again."""
        was_training = self.generator.training
        self.generator.train(self.noise)
        try:
            if self.noise:
                assert len(names) == 1, names
                torch.manual_seed(image_seed(self.seed, names[0]))
            draw_latents(self.generator, [self._image_seed(name) for name in names])
            if self.style:
                choose_style(self.generator, self.style.style)
            yield
        finally:
            self.generator.train(was_training)

    def _image_seed(self, name: str) -> Seed:
        seed = image_seed(self.seed, name)
        return MixedSeed(seed, image_seed(self.toward[0], name), self.toward[1]) if self.toward else seed

    def _generate(self, batch: Batch) -> Tensor:
        batch = batch.to(self.device)
        with self.precision.autocast():
            condition = self.conditioning(batch)
            if self.clusters is None:
                inputs = self.conditioning.generator_inputs(batch, condition)
            else:
                inputs = (torch.cat([condition, self._drawn_features(batch, self.clusters)], dim=1),)
            fake: Tensor = self.generator(*inputs)
        return fake

    def _drawn_features(self, batch: Batch, clusters: FeatureClusters) -> Tensor:
        """Return (N, C, H, W) float32 features, in each instance of the clusters of its class; without classes, of one.

        Those of an image depend on `seed` and its name alone, not on the other images of a run.
        """
        features = []
        for name, source, region in zip(batch.names, batch.source, self.conditioning.region_map(batch), strict=True):
            rng = np.random.default_rng(image_seed(self.seed, name))
            classes = source if self.conditioning.n_classes else torch.zeros_like(region)
            features.append(clusters.sample(classes[None], region[None], rng))
        return torch.cat(features)

    def _parts(self, batch: Batch, tiles: Tiles, *, is_mirrored: bool = False) -> Iterator[tuple[Window, Tensor]]:
        """Yield the generator's output for one image, or for its mirror image, in parts with their windows."""
        height, width = batch.source.shape[-2:]
        whole = Window(0, height, 0, width)

        def read(window: Window) -> Batch:
            if is_mirrored:
                return batch.mapped(lambda images: window.mirrored(width).cut(images).flip(-1))
            return batch.mapped(window.cut)

        features = self._instance_features(read, whole, tiles)

        def read_input(window: Window) -> Tensor:
            seen = window.grown(1, whole)  # an edge between instances depends on the next pixel
            part = read(seen).to(self.device)
            condition = self.conditioning(part)
            if features is not None:
                condition = torch.cat([condition, seen.cut(features).to(self.device)], dim=1)
            elif self.conditioning.features == "precomputed":
                (condition,) = self.conditioning.generator_inputs(part, condition)
            return window.seen_from(seen).cut(condition)

        return tiles.generator.parts(read_input, height, width)

    def _instance_features(self, read: Callable[[Window], Batch], whole: Window, tiles: Tiles) -> Tensor | None:
        """Return (1, C, H, W) drawn or encoded features on the CPU; None if there are none or precomputed ones."""
        if self.clusters is not None:
            return self._drawn_features(read(whole), self.clusters)
        if tiles.encoder is None:
            return None

        def read_target(window: Window) -> Tensor:
            return self.conditioning.target(read(window).to(self.device))

        encoded = torch.empty(0)
        for window, part in tiles.encoder.parts(read_target, whole.bottom, whole.right):
            encoded = encoded if encoded.numel() else part.new_empty(*part.shape[:2], whole.bottom, whole.right)
            window.cut(encoded).copy_(part)
        return average_in_instances(encoded, self.conditioning.region_map(read(whole)))

    def show_source(self, sample: Sample) -> Tensor:
        """Return the source as (3, H, W) uint8 RGB, a label map in the colours of its classes.

        It has the size of its translation.
        """
        scale = self.conditioning.target_scale
        if self.conditioning.n_classes:
            return scaled_picture(colorize(sample.source, self.colors), scale)
        is_rgb = self.conditioning.source_is_rgb
        return scaled_picture(sample.source if is_rgb else picture(sample.source), scale)

    def show_target(self, image: Tensor, like: Tensor | None = None) -> Tensor:
        """Return a target or a translation as (3, H, W) uint8 RGB; `like`: the image that it is compared with."""
        return image if self.conditioning.target_is_rgb else picture(image, like)

    def weights(self, sample: Sample) -> Tensor | None:
        """Return the weights of a sample's pixels, (1, H, W) float32 on the CPU; None where all weigh the same."""
        weights = self.conditioning.weights(Batch.of([sample]))
        return None if weights is None else weights[0]


def _assembled(parts: Iterator[tuple[Window, Tensor]], folder: Path, height: int, width: int) -> Tensor:
    """Return an image (1, C, H, W) of parts (1, C, h, w), in a temporary file of `folder`."""
    image = torch.empty(0)
    for window, part in parts:
        if not image.numel():
            image = mapped_tensor(folder, (1, part.shape[1], height, width), part.dtype)
        window.cut(image).copy_(part)
    return image
