"""Conversion of a batch to the inputs of the networks, and of translated images to pixel values."""

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
    """The pixel values that are mapped to -1 and 1. Each tuple has one value for all channels, or one per channel."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, bounds: Sequence[float]) -> Self:
        """Return a range from [low, high], or from [low, high, low, high, ...] with one pair per channel."""
        return cls(tuple(bounds[::2]), tuple(bounds[1::2]))

    def to_float(self, images: Tensor, *, clamps: bool = True) -> Tensor:
        """Map (N, C, H, W) pixel values of any dtype to float32 in [-1, 1]. Without `clamps`, values can be outside."""
        low, scale = self._low_and_scale(images.device)
        values = images.float().sub(low).mul_(scale).sub_(1.0)
        return values.clamp_(-1.0, 1.0) if clamps else values

    def from_float(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Map (N, C, H, W) floats in [-1, 1] to pixel values. Round and clamp them if `dtype` is an integer type."""
        low, scale = self._low_and_scale(images.device)
        values = images.float().add(1.0).div_(scale).add_(low)
        if dtype.is_floating_point:
            return values.to(dtype)
        bounds = torch.iinfo(dtype)
        return values.round_().clamp_(bounds.min, bounds.max).to(dtype)

    def outside(self, image: Tensor) -> float:
        """Return the fraction of the values of a (C, H, W) image that are outside the range."""
        return float((self.to_float(image, clamps=False).abs() > 1.0 + 1e-5).float().mean())

    def _low_and_scale(self, device: torch.device) -> tuple[Tensor | float, Tensor | float]:
        if len(self.low) == 1:
            return self.low[0], 2.0 / (self.high[0] - self.low[0])
        return _tensors(self, device)


@lru_cache(maxsize=64)
def _tensors(values: ValueRange, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the lower bounds and the scales, (C, 1, 1) each. The cache avoids a blocking copy in each step."""
    with torch.inference_mode(False):
        low, high = (torch.tensor(bounds, dtype=torch.float64).view(-1, 1, 1) for bounds in (values.low, values.high))
        return low.float().to(device), (2.0 / (high - low)).float().to(device)


def images_to_float(images: Tensor) -> Tensor:
    """Convert (N, C, H, W) uint8 to float32 in [-1, 1]."""
    return images.float().div_(127.5).sub_(1.0)


def images_to_uint8(images: Tensor) -> Tensor:
    """Convert (..., H, W) floats in [-1, 1] to uint8. Round and clamp the values."""
    return images.float().add(1.0).mul_(127.5).round_().clamp_(0, 255).to(torch.uint8)


def _to_float(images: Tensor, values: ValueRange | None, n_channels: int, *, clamps: bool = True) -> Tensor:
    """Convert images to (N, n_channels, H, W) float32 in [-1, 1]. For one channel, convert RGB to brightness."""
    converted = values.to_float(images, clamps=clamps) if values else images_to_float(images)
    if values or converted.shape[1] == n_channels:
        return converted
    red, green, blue = converted.split(1, dim=1)
    return 0.299 * red + 0.587 * green + 0.114 * blue  # pix2pix's weights (ITU-R BT.601)


def one_hot(labels: Tensor, n_classes: int) -> Tensor:
    """Convert (N, 1, H, W) class ids to (N, n_classes, H, W) float32. Ignored pixels are 0 in all channels."""
    classes = torch.arange(n_classes, device=labels.device, dtype=labels.dtype).view(1, -1, 1, 1)
    return (labels == classes).float()


def instance_edges(instances: Tensor) -> Tensor:
    """Return the edges of (N, 1, H, W) ids as float32: 1 if one of the 4 neighbours has another id (pix2pixHD)."""
    across = F.pad(instances[..., :, 1:] != instances[..., :, :-1], (1, 1))  # column k: pixels k - 1 and k differ
    down = F.pad(instances[..., 1:, :] != instances[..., :-1, :], (0, 0, 1, 1))
    return (across[..., 1:] | across[..., :-1] | down[..., 1:, :] | down[..., :-1, :]).float()


def weights_of_classes(labels: Tensor, class_weights: Mapping[int, float], height: int, width: int) -> Tensor:
    """Return pixel weights, (N, 1, height, width) float32, from (N, 1, H, W) class ids. The default weight is 1."""
    weights = torch.ones_like(labels, dtype=torch.float32)
    for class_id, weight in class_weights.items():  # a lookup table would need a blocking copy to the GPU
        weights.masked_fill_(labels == class_id, weight)
    if weights.shape[-2:] == (height, width):
        return weights
    return F.interpolate(weights, (height, width), mode="nearest-exact")


class PixelWeightFactors(NamedTuple):
    """Two factors, (N, 1, H, W) float32. Their product is the weight of each target pixel. None means 1 everywhere.

    of_target: Factor from the weight maps in data.weight_folder.
    of_classes: Factor from the class weights and the source's label map.
    """

    of_target: Tensor | None = None
    of_classes: Tensor | None = None

    @property
    def product(self) -> Tensor | None:
        """The pixel weights, (N, 1, H, W) float32, or None if all are 1."""
        factors = [factor for factor in self if factor is not None]
        return reduce(torch.mul, factors) if factors else None


Features = Literal["none", "encoded", "precomputed"]
Regions = Literal["instances", "labels"]


@dataclass(frozen=True)
class Conditioning:
    """Converts a batch to network inputs. The condition is the generator's input without features and style.

    n_classes: Number of classes in label maps, or 0 if sources are images.
    instance_edges: Whether the condition has a channel of edges between instances.
    source_channels, target_channels: 3 for RGB images, 1 for brightness, otherwise the number of stored channels.
    source_range, target_range: Pixel values that are mapped to -1 and 1. None: 0 and 255.
    features: Where instance features come from: the generator's encoder ("encoded") or the data set ("precomputed").
    regions: Map that divides an image into regions. All pixels of a region have the same features.
    encodes_style: Whether the generator encodes the style of the target in training.
    edges_of: Map whose edges are used. Use "labels" if each instance is a connected area of a class.
    class_weights: Weight of each class in losses and metrics, by id. A class without an entry has weight 1.
    source_image_channels: Number of channels of `Batch.source_images`, or 0 without these images.
    target_scale: Height of a target divided by the height of its source.
    target_is_bounded: Whether targets are clamped to target_range.
    neighbours: Number of neighbouring slices of a volume on each side, whose values are further source channels.
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
    neighbours: int = 0

    @property
    def channels(self) -> int:
        """Number of channels of the condition."""
        return (self.n_classes or self.source_channels) + self.source_image_channels + int(self.instance_edges)

    def without_neighbours(self, source: Tensor) -> Tensor:
        """Return the channels of a (C, H, W) source that do not come from neighbouring slices."""
        return source[self.neighbours :: 2 * self.neighbours + 1]

    @property
    def source_is_rgb(self) -> bool:
        """Whether sources are 8-bit RGB images."""
        return not self.n_classes and self.source_range is None and self.source_channels in (1, 3)

    @property
    def source_is_drawn(self) -> bool:
        """Whether a source can be shown as a picture: it is one label map, or one 8-bit RGB image."""
        return not self.source_image_channels and (self.n_classes > 0 or self.source_is_rgb)

    @property
    def target_is_rgb(self) -> bool:
        """Whether targets are 8-bit RGB images."""
        return self.target_range is None and self.target_channels in (1, 3)

    @property
    def is_8_bit(self) -> bool:
        """Whether targets are 8-bit RGB images, and sources are 8-bit RGB images or label maps."""
        return self.source_is_drawn and self.target_is_rgb

    @property
    def needs_instances(self) -> bool:
        """Whether samples must have an instance map, for edges or for encoded features."""
        return self.takes_edges_of_instances or (self.features == "encoded" and self.regions == "instances")

    @property
    def takes_edges_of_instances(self) -> bool:
        """Whether the edges come from an instance map."""
        return self.instance_edges and self.edges_of == "instances"

    def __call__(self, batch: Batch) -> Tensor:
        """Return the condition, (N, channels, H, W) float32 on the batch's device.

        The channels are one-hot labels, then images in [-1, 1], then instance edges, as in pix2pixHD.
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
        """Resize a condition (N, channels, H, W) to the size of the target, for the discriminator.

        To enlarge, interpolate image channels bilinearly, and repeat pixels of label and edge channels. To reduce,
        average the pixels of all channels.
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
        """Convert translated images, (N, target_channels, H, W) in [-1, 1], to the pixel values of image files.

        Return (N, 3, H, W) uint8 for RGB targets, otherwise values of type `dtype` in `target_range`.
        """
        if self.target_is_rgb:
            return images_to_uint8(images).expand(-1, 3, -1, -1)
        return self.target_range.from_float(images, dtype) if self.target_range else images_to_uint8(images)

    def pixel_differences(self, images: Tensor) -> Tensor:
        """Scale differences between translated images to float32 differences between pixel values of image files."""
        _, scale = (self.target_range or ValueRange((0.0,), (255.0,)))._low_and_scale(images.device)
        return (images.float() / scale).expand(-1, 3 if self.target_is_rgb else -1, -1, -1)

    def weights(self, batch: Batch) -> PixelWeightFactors:
        """Return the weight factors of the target's pixels."""
        of_target = None if batch.weights is None else weights_to_float(batch.weights)
        if not self.class_weights or not self.n_classes:
            return PixelWeightFactors(of_target)
        size = (batch.source if batch.target is None else batch.target).shape[-2:]
        return PixelWeightFactors(of_target, weights_of_classes(batch.source, self.class_weights, *size))

    def generator_inputs(self, batch: Batch, condition: Tensor) -> tuple[Tensor, ...]:
        """Return the generator's arguments for a batch and its condition (N, channels, H, W).

        Precomputed features are concatenated with the condition. If the generator encodes features, the target and the
        region map are further arguments.
        """
        match self.features:
            case "none":
                return (condition,)
            case "precomputed":
                return (torch.cat([condition, images_to_float(batch.maps["features"])], dim=1),)
            case "encoded":
                return condition, self.target(batch), self.region_map(batch)

    def training_inputs(self, batch: Batch, condition: Tensor) -> tuple[Tensor, ...]:
        """Return the generator's arguments in training. Add the target if the generator encodes its style."""
        inputs = self.generator_inputs(batch, condition)
        return (*inputs, self.target(batch)) if self.encodes_style else inputs

    def region_map(self, batch: Batch) -> Tensor:
        """Return the region of each pixel, (N, 1, H, W) integer ids."""
        return batch.source if self.regions == "labels" else batch.maps["instances"]
