"""Converts the maps of a batch to the inputs of networks, on the device, and translations to pixels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from data.batch import Batch, weights_to_float


@dataclass(frozen=True)
class ValueRange:
    """The values that become -1 and 1, for all channels together or for each channel."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, bounds: Sequence[float]) -> Self:
        """Return the range of [low, high], or of the low and high of each channel in turn."""
        return cls(tuple(bounds[::2]), tuple(bounds[1::2]))

    def to_float(self, images: Tensor, *, clamps: bool = True) -> Tensor:
        """Convert (N, C, H, W) values of any type to float32, clamped to [-1, 1] if `clamps`."""
        low, scale = self._low_and_scale(images.device)
        values = images.float().sub(low).mul_(scale).sub_(1.0)
        return values.clamp_(-1.0, 1.0) if clamps else values

    def from_float(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Convert (N, C, H, W) floats in [-1, 1] to values. Integers are rounded and clamped to their type."""
        low, scale = self._low_and_scale(images.device)
        values = images.float().add(1.0).div_(scale).add_(low)
        if dtype.is_floating_point:
            return values.to(dtype)
        bounds = torch.iinfo(dtype)
        return values.round_().clamp_(bounds.min, bounds.max).to(dtype)

    def outside(self, image: Tensor) -> float:
        """Return the share of a (C, H, W) image's values that are outside the range."""
        return float((self.to_float(image, clamps=False).abs() > 1.0 + 1e-5).float().mean())

    def _low_and_scale(self, device: torch.device) -> tuple[Tensor | float, Tensor | float]:
        if len(self.low) == 1:
            return self.low[0], 2.0 / (self.high[0] - self.low[0])
        return _tensors(self, device)


@lru_cache(maxsize=64)
def _tensors(values: ValueRange, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the lows and the scales, (C, 1, 1), on a device. The cache saves a step the wait for the copy."""
    with torch.inference_mode(False):
        low, high = (torch.tensor(bounds, dtype=torch.float64).view(-1, 1, 1) for bounds in (values.low, values.high))
        return low.float().to(device), (2.0 / (high - low)).float().to(device)


def images_to_float(images: Tensor) -> Tensor:
    """Convert (N, C, H, W) uint8 to float32 in [-1, 1]."""
    return images.float().div_(127.5).sub_(1.0)


def images_to_uint8(images: Tensor) -> Tensor:
    """Convert (..., H, W) floats in [-1, 1] to uint8, clamped and rounded to the nearest level."""
    return images.float().add(1.0).mul_(127.5).round_().clamp_(0, 255).to(torch.uint8)


def _to_float(images: Tensor, values: ValueRange | None, n_channels: int, *, clamps: bool = True) -> Tensor:
    """Convert images to (N, n_channels, H, W) float32 in [-1, 1]; for one channel RGB to its brightness."""
    converted = values.to_float(images, clamps=clamps) if values else images_to_float(images)
    if values or converted.shape[1] == n_channels:
        return converted
    red, green, blue = converted.split(1, dim=1)
    return 0.299 * red + 0.587 * green + 0.114 * blue  # pix2pix's weights (ITU-R BT.601)


def one_hot(labels: Tensor, n_classes: int) -> Tensor:
    """Convert (N, 1, H, W) class ids to (N, K, H, W) float32 in {0, 1}; ignored pixels are 0."""
    classes = torch.arange(n_classes, device=labels.device, dtype=labels.dtype).view(1, -1, 1, 1)
    return (labels == classes).float()


def instance_edges(instances: Tensor) -> Tensor:
    """Return (N, 1, H, W) float32: 1 where one of the 4 neighbours in (N, 1, H, W) ids differs, else 0 (pix2pixHD)."""
    across = F.pad(instances[..., :, 1:] != instances[..., :, :-1], (1, 1))  # column k: between pixels k - 1 and k
    down = F.pad(instances[..., 1:, :] != instances[..., :-1, :], (0, 0, 1, 1))
    return (across[..., 1:] | across[..., :-1] | down[..., 1:, :] | down[..., :-1, :]).float()


def weights_of_classes(labels: Tensor, class_weights: Mapping[int, float], height: int, width: int) -> Tensor:
    """Return (N, 1, height, width) float32 weights of (N, 1, H, W) class ids; classes without a weight have 1."""
    weights = torch.ones_like(labels, dtype=torch.float32)
    for class_id, weight in class_weights.items():  # copying a table to a GPU would block
        weights.masked_fill_(labels == class_id, weight)
    if weights.shape[-2:] == (height, width):
        return weights
    return F.interpolate(weights, (height, width), mode="nearest-exact")


class PixelWeightFactors(NamedTuple):
    """Two factors of the weights of pixels, (N, 1, H, W) float32 each, or None if all are 1.

    of_target: From the maps of data.weight_folder, which belong to the targets.
    of_classes: From the classes of the sources.
    """

    of_target: Tensor | None = None
    of_classes: Tensor | None = None

    @property
    def product(self) -> Tensor | None:
        """The weights, (N, 1, H, W) float32, or None if all are 1."""
        factors = [factor for factor in self if factor is not None]
        return reduce(torch.mul, factors) if factors else None


Features = Literal["none", "encoded", "precomputed"]
Regions = Literal["instances", "labels"]


@dataclass(frozen=True)
class Conditioning:
    """Computes the inputs of networks from a batch.

    n_classes: Number of classes of label maps; 0 if sources are images.
    instance_edges: Whether the edges between instances are an additional channel.
    source_channels, target_channels: 3 for RGB images, 1 for their brightness, otherwise channels of stored images.
    source_range, target_range: Values that become -1 and 1; None for 8 bits (0 and 255).
    features: Instance features for the generator, "encoded" from the target by its encoder or "precomputed".
    regions: Map whose ids are the regions that share their features.
    encodes_style: Whether an encoder of the generator sees the target in training.
    edges_of: Map that has the edges. For instances that are connected parts of classes these are the labels.
    class_weights: Weights of classes in losses and metrics, by id; default 1. They do not change a condition.
    source_image_channels: Channels of `Batch.source_images`, in source_range; 0 without.
    target_scale: Height of a target divided by the height of its source.
    target_is_bounded: Whether targets are clamped to target_range.
    """

    n_classes: int
    instance_edges: bool
    source_channels: int = 3
    target_channels: int = 3
    source_range: ValueRange | None = None
    target_range: ValueRange | None = None
    features: Features = "none"
    regions: Regions = "instances"
    encodes_style: bool = False
    edges_of: Regions = "instances"
    class_weights: Mapping[int, float] = field(default_factory=dict, compare=False)
    source_image_channels: int = 0
    target_scale: float = 1.0
    target_is_bounded: bool = True

    @property
    def channels(self) -> int:
        """Number of channels of the condition, without features."""
        return (self.n_classes or self.source_channels) + self.source_image_channels + int(self.instance_edges)

    @property
    def source_is_rgb(self) -> bool:
        """Whether sources are 8-bit RGB images."""
        return not self.n_classes and self.source_range is None and self.source_channels in (1, 3)

    @property
    def source_is_drawn(self) -> bool:
        """Whether a source can be shown: it is a label map or an 8-bit RGB image."""
        return not self.source_image_channels and (self.n_classes > 0 or self.source_is_rgb)

    @property
    def target_is_rgb(self) -> bool:
        """Whether targets are 8-bit RGB images."""
        return self.target_range is None and self.target_channels in (1, 3)

    @property
    def is_8_bit(self) -> bool:
        """Whether all images are 8-bit RGB; sources may be label maps."""
        return self.source_is_drawn and self.target_is_rgb

    @property
    def needs_instances(self) -> bool:
        """Whether samples must have an instance map; precomputed features need none."""
        return self.takes_edges_of_instances or (self.features == "encoded" and self.regions == "instances")

    @property
    def takes_edges_of_instances(self) -> bool:
        """Whether the edges come from an instance map."""
        return self.instance_edges and self.edges_of == "instances"

    def __call__(self, batch: Batch) -> Tensor:
        """Return the condition, (N, channels, H, W) float32 on the batch's device.

        The channels are one-hot labels, images in [-1, 1] and instance edges, in pix2pixHD's order.
        """
        if self.n_classes:
            source = one_hot(batch.source, self.n_classes)
            if self.source_image_channels:
                images = _to_float(batch.maps["source_images"], self.source_range, self.source_image_channels)
                source = torch.cat([source, images], dim=1)
        else:
            source = _to_float(batch.source, self.source_range, self.source_channels)
        if not self.instance_edges:
            return source
        ids = batch.source if self.edges_of == "labels" else batch.maps["instances"]
        return torch.cat([source, instance_edges(ids)], dim=1)

    def of_discriminator(self, condition: Tensor) -> Tensor:
        """Return a condition (N, channels, H, W) at the size of the target, as the discriminator sees it.

        Images are enlarged bilinearly; labels and edges repeat their pixels. Reduction averages all channels.
        """
        scale = self.target_scale
        if scale == 1:
            return condition
        if scale < 1:
            return F.avg_pool2d(condition, kernel_size=round(1 / scale))
        enlarged = F.interpolate(condition, scale_factor=scale, mode="nearest")
        n_images = self.source_image_channels if self.n_classes else self.source_channels
        if n_images:
            images = slice(self.n_classes, self.n_classes + n_images)
            enlarged[:, images] = F.interpolate(condition[:, images], scale_factor=scale, mode="bilinear")
        return enlarged

    def target(self, batch: Batch) -> Tensor:
        """Return the target, (N, target_channels, H, W) float32, in [-1, 1] if targets are bounded."""
        return _to_float(batch.maps["target"], self.target_range, self.target_channels, clamps=self.target_is_bounded)

    def pixels(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Convert translations in [-1, 1], (N, target_channels, H, W), to pixels of files.

        These are (N, 3, H, W) uint8 RGB, or values of type `dtype` in the targets' range.
        """
        if self.target_is_rgb:
            return images_to_uint8(images).expand(-1, 3, -1, -1)
        return self.target_range.from_float(images, dtype) if self.target_range else images_to_uint8(images)

    def weights(self, batch: Batch) -> PixelWeightFactors:
        """Return the factors of the weights of the target's pixels."""
        of_map = None if batch.weights is None else weights_to_float(batch.weights)
        if not self.class_weights or not self.n_classes:
            return PixelWeightFactors(of_map)
        sides = (batch.source if batch.target is None else batch.target).shape[-2:]
        return PixelWeightFactors(of_map, weights_of_classes(batch.source, self.class_weights, *sides))

    def generator_inputs(self, batch: Batch, condition: Tensor) -> tuple[Tensor, ...]:
        """Return the generator's arguments for a batch and its condition (N, channels, H, W).

        Precomputed features are further channels in [-1, 1]. An encoder of features also takes target and regions.
        """
        match self.features:
            case "none":
                return (condition,)
            case "precomputed":
                return (torch.cat([condition, images_to_float(batch.maps["features"])], dim=1),)
            case "encoded":
                return condition, self.target(batch), self.region_map(batch)

    def training_inputs(self, batch: Batch, condition: Tensor) -> tuple[Tensor, ...]:
        """Return the generator's arguments in training, which include the target if its style is encoded."""
        inputs = self.generator_inputs(batch, condition)
        return (*inputs, self.target(batch)) if self.encodes_style else inputs

    def region_map(self, batch: Batch) -> Tensor:
        """Return (N, 1, H, W) integer ids of the regions that share their features."""
        return batch.source if self.regions == "labels" else batch.maps["instances"]
