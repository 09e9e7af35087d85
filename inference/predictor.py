"""Translate batches with a generator, for test.py and for validation during training."""

import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from data.batch import Batch, Sample
from data.conditioning import Conditioning
from inference.tiling import TiledNetwork, Window, has_instance_norm
from models.instance_features import FeatureClusters
from models.latent_inputs import MixedSeed, Seed, choose_style, draw_latents, image_seed, takes_noise, takes_style
from utils.device import Precision
from utils.mapped_memory import mapped_tensor
from utils.pictures import colorize, picture, scaled_picture

_COPIES = 1.3  # memory factor, because CPU convolutions copy inputs; measured 1.2 to 1.6 on four generators


@dataclass(frozen=True)
class Predictor:
    """Translates batches with one generator.

    colors: (K, 3) uint8 colours of the classes. Unused if sources are RGB images.
    clusters: Clusters to sample instance features from. None: samples provide the features.
    seed: Seed of features, noise channels, style and dropout. It is combined with the name of the image.
    toward: (second seed, factor). The factor, 0 to 1, interpolates noise and styles from `seed` to the second seed.
    style: Style of all translations, (1, style_channels). None: sample a style for each image with `seed`.
    noise: Whether to use dropout and the image's own batch statistics in the translation, as pix2pix does.
    tiles: Network that computes large images in tiles. None: translate every image in one piece.
    target_dtype: Dtype of translations if targets are not 8-bit RGB.
    has_spread: Whether `generator` also returns a standard deviation, see `models.ensemble`.
    """

    generator: nn.Module
    conditioning: Conditioning
    precision: Precision
    device: torch.device
    colors: Tensor
    clusters: FeatureClusters | None = None
    seed: int = 0
    toward: tuple[int, float] | None = None
    style: Tensor | None = None
    noise: bool = False
    tiles: TiledNetwork | None = None
    target_dtype: torch.dtype = torch.uint8
    has_spread: bool = False

    def tiles_for(self, height: int, width: int) -> TiledNetwork | None:
        """Return `tiles` if a source of this size needs tiles, otherwise None."""
        longest = max(height, width) * max(1.0, self.conditioning.target_scale)
        return self.tiles if self.tiles and longest > self.tiles.at_once else None

    @property
    def uses_statistics_of_images(self) -> bool:
        """Whether the generator has instance norm with statistics of the whole image, not of windows."""
        is_windowed = self.tiles is not None and self.tiles.is_windowed
        return has_instance_norm(self.generator) and not is_windowed

    @property
    def draws_latents(self) -> bool:
        """Whether noise channels or styles are sampled with `seed`."""
        return takes_noise(self.generator) or (self.style is None and takes_style(self.generator))

    @property
    def takes_seed(self) -> bool:
        """Whether translations depend on `seed`."""
        return self.noise or self.clusters is not None or self.draws_latents

    @torch.inference_mode()
    def translate(self, batch: Batch) -> Tensor:
        """Return (N, 3, H, W) uint8 RGB, or values in the targets' range, on the CPU. Noise and tiles require N = 1.

        With `has_spread`, return (N, 2 C, H, W) float32. `split` separates the two parts of an image.
        """
        if tiles := self.tiles_for(*batch.source.shape[-2:]):
            return self._in_tiles(batch, tiles)
        with self._drawn(batch.names):
            return self._pixels(self._generate(batch))

    def split(self, image: Tensor) -> tuple[Tensor, Tensor | None]:
        """Split an image that `translate` returned into the translation and its float32 standard deviation, or None."""
        if not self.has_spread:
            return image, None
        fake, spread = image.chunk(2)
        return fake.to(torch.uint8 if self.conditioning.target_is_rgb else self.target_dtype), spread

    @torch.inference_mode()
    def bytes_per_pixel(self, part: Batch) -> float:
        """Return the memory that a translation needs per pixel of the source, measured on a part of an image."""
        with self._drawn(part.names), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Using `torch.compile")  # this pass is not compiled
            with _LiveBytes() as live:
                self._generate(part)
        return _COPIES * live.most / part.source[:, 0].numel()

    def _in_tiles(self, batch: Batch, tiles: TiledNetwork) -> Tensor:
        """Compute the translation of one image tile by tile. Return it as a tensor in a temporary file."""
        sides = [round(side * self.conditioning.target_scale) for side in batch.source.shape[-2:]]
        image = torch.empty(0)
        with self._drawn(batch.names), self.precision.autocast():
            for window, part in self._parts(batch, tiles):
                values = self._pixels(part)
                if not image.numel():
                    image = mapped_tensor(tiles.folder, (1, values.shape[1], *sides), values.dtype)
                window.cut(image).copy_(values)
        return image

    @contextmanager
    def _drawn(self, names: Sequence[str]) -> Iterator[None]:
        """Set the generator's mode, and sample noise and styles for the named images. Restore the mode at the end."""
        was_training = self.generator.training
        self.generator.train(self.noise)
        try:
            if self.noise:
                assert len(names) == 1, names
                torch.manual_seed(image_seed(self.seed, names[0]))
            draw_latents(self.generator, [self._image_seed(name) for name in names])
            if self.style is not None:
                choose_style(self.generator, self.style)
            yield
        finally:
            self.generator.train(was_training)

    def _pixels(self, output: Tensor) -> Tensor:
        """Return the output of the generator as pixel values on the CPU."""
        fake, *spread = output.chunk(2, dim=1) if self.has_spread else (output,)
        pixels = self.conditioning.pixels(fake, self.target_dtype)
        # cat converts pixels to float32 if there is a spread. It holds all integers of target files exactly
        return torch.cat([pixels, *map(self.conditioning.pixel_differences, spread)], dim=1).cpu()

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
        """Return (N, C, H, W) float32 features, sampled for each instance from the clusters of its class.

        Without classes, all instances share one set of clusters. Random choices depend on `seed` and the image's name.
        """
        features = []
        for name, source, region in zip(batch.names, batch.source, self.conditioning.region_map(batch), strict=True):
            rng = np.random.default_rng(image_seed(self.seed, name))
            classes = source if self.conditioning.n_classes else torch.zeros_like(region)
            features.append(clusters.sample(classes[None], region[None], rng))
        return torch.cat(features)

    def _parts(self, batch: Batch, tiles: TiledNetwork) -> Iterator[tuple[Window, Tensor]]:
        """Yield the windows of one image, each with the generator's output inside the window."""
        height, width = batch.source.shape[-2:]
        whole = Window(0, height, 0, width)
        features = None if self.clusters is None else self._drawn_features(batch, self.clusters)

        def read_input(window: Window) -> Tensor:
            seen = window.grown(1, whole)  # instance edges depend on neighbouring pixels
            part = batch.mapped(seen.cut).to(self.device)
            condition = self.conditioning(part)
            if features is not None:
                condition = torch.cat([condition, seen.cut(features).to(self.device)], dim=1)
            elif self.conditioning.features == "precomputed":
                (condition,) = self.conditioning.generator_inputs(part, condition)
            return window.seen_from(seen).cut(condition)

        return tiles.parts(read_input, height, width)

    def show_source(self, sample: Sample) -> Tensor:
        """Return the source as (3, H, W) uint8 RGB in the size of its translation. Label maps get class colours."""
        scale = self.conditioning.target_scale
        if self.conditioning.n_classes:
            return scaled_picture(colorize(sample.source, self.colors), scale)
        source = self.conditioning.without_neighbours(sample.source)
        return scaled_picture(source if self.conditioning.source_is_rgb else picture(source), scale)

    def show_target(self, image: Tensor, like: Tensor | None = None) -> Tensor:
        """Return a target or a translation as (3, H, W) uint8 RGB. like: Image that sets the value range."""
        return image if self.conditioning.target_is_rgb else picture(image, like)

    def weights(self, sample: Sample) -> Tensor | None:
        """Return the weights of a sample's pixels, (1, H, W) float32 on the CPU; None if all weights are equal."""
        weights = self.conditioning.weights(Batch.of([sample])).product
        return None if weights is None else weights[0]


class _LiveBytes(TorchDispatchMode):
    """Counts the bytes of live tensors that operations have created. `most` is the peak so far."""

    def __init__(self) -> None:
        super().__init__()
        self.most = self._now = 0
        self._storages: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, n_bytes = storage.data_ptr(), storage.nbytes()
        if n_bytes and key not in self._storages:
            self._storages.add(key)
            self._now += n_bytes
            self.most = max(self.most, self._now)
            weakref.finalize(storage, self._forget, key, n_bytes)

    def _forget(self, key: int, n_bytes: int) -> None:
        self._storages.discard(key)
        self._now -= n_bytes
