"""Conversion of samples' maps to the networks' inputs, on the device, and back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from data.batch import Batch, weights_to_float
from data.value_range import ValueRange


def images_to_float(images: Tensor) -> Tensor:
    """Convert (N, C, H, W) uint8 to float32 in [-1, 1]."""
    return images.float().div_(127.5).sub_(1.0)


def images_to_uint8(images: Tensor) -> Tensor:
    """Convert (..., H, W) floats in [-1, 1] to uint8, clamped and rounded to the nearest level."""
    return images.float().add(1.0).mul_(127.5).round_().clamp_(0, 255).to(torch.uint8)


def _to_float(images: Tensor, values: ValueRange | None, n_channels: int, *, clamps: bool = True) -> Tensor:
    """Convert images of a batch to (N, n_channels, H, W) float32 in [-1, 1]; for one channel RGB to its brightness."""
    converted = values.to_float(images, clamps=clamps) if values else images_to_float(images)
    if values or converted.shape[1] == n_channels:
        return converted
    red, green, blue = converted.split(1, dim=1)
    return 0.299 * red + 0.587 * green + 0.114 * blue  # pix2pix's weights (ITU-R BT.601)


def one_hot(labels: Tensor, n_classes: int) -> Tensor:
    """Convert (N, 1, H, W) class ids to (N, K, H, W) float32 in {0, 1}; an ignored pixel is 0 in every channel."""
    classes = torch.arange(n_classes, device=labels.device, dtype=labels.dtype).view(1, -1, 1, 1)
    return (labels == classes).float()


def instance_edges(instances: Tensor) -> Tensor:
    """Return (N, 1, H, W) float32: 1 where one of the 4 neighbours in (N, 1, H, W) ids differs, else 0 (pix2pixHD)."""
    across = F.pad(instances[..., :, 1:] != instances[..., :, :-1], (1, 1))  # column k: between pixels k - 1 and k
    down = F.pad(instances[..., 1:, :] != instances[..., :-1, :], (0, 0, 1, 1))
    return (across[..., 1:] | across[..., :-1] | down[..., 1:, :] | down[..., :-1, :]).float()


def weights_of_classes(labels: Tensor, class_weights: Mapping[int, float], height: int, width: int) -> Tensor:
    """Return (N, 1, height, width) float32 weights of (N, 1, H, W) class ids.

    class_weights: by id; other classes weigh 1.
    """
    weights = torch.ones_like(labels, dtype=torch.float32)
    for class_id, weight in class_weights.items():  # numbers, not a table: its copy to a GPU would make the host wait
        weights.masked_fill_(labels == class_id, weight)
    if weights.shape[-2:] == (height, width):
        return weights
    return F.interpolate(weights, (height, width), mode="nearest-exact")


Features = Literal["none", "encoded", "precomputed"]
Regions = Literal["instances", "labels"]


@dataclass(frozen=True)
class Conditioning:
    """Computes the networks' inputs from a batch.

    n_classes: number of classes of the label maps; 0 where sources are images.
    instance_edges: whether the edges between instances are an additional channel.
    source_channels, target_channels: 3 for RGB images, 1 for their brightness alone; of images that are read as they
        are stored, their channels.
    source_range, target_range: of the values of images; None where they have 8 bits, of which the range is 0 to 255.
    features: instance features for the generator: "encoded" from the target by an encoder that is part of it, or
        "precomputed", read with the sample.
    regions: the map whose ids are the regions that share their features.
    encodes_style: whether an encoder that is part of the generator has the targets' style, in training alone.
    edges_of: the map whose edges are the additional channel. Connected parts of classes have the edges of the labels.
    class_weights: weights of the pixels of classes in losses and metrics, by id; those of the others are 1. Conditions
        with other weights are equal: the networks do not see them. Where sources are images, the classes are those of
        `Batch.labels`.
    source_image_channels: of the images behind label maps, `Batch.source_images`, in source_range; 0 without.
    target_scale: sides of a target, in those of its source.
    target_is_bounded: whether values of targets outside of target_range become its bounds.
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
        """Whether sources are 8-bit RGB images, and no label maps."""
        return not self.n_classes and self.source_range is None and self.source_channels in (1, 3)

    @property
    def source_is_drawn(self) -> bool:
        """Whether a source can be drawn: it is a label map or an 8-bit RGB image, and nothing else."""
        return not self.source_image_channels and (self.n_classes > 0 or self.source_is_rgb)

    @property
    def target_is_rgb(self) -> bool:
        """Whether targets are 8-bit RGB images."""
        return self.target_range is None and self.target_channels in (1, 3)

    @property
    def is_8_bit(self) -> bool:
        """Whether images are 8-bit RGB, and sources may be label maps."""
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
        """Return the condition, (N, channels, H, W) float32 on the batch's device, with pix2pixHD's order of channels.

        These are one-hot labels, the image in [-1, 1], or both in this order, and then the instance edges.
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

        Enlarged, images are interpolated, bilinearly; one-hot labels and edges repeat their pixels and stay 0 or 1.
        Reduced, each pixel is the mean of those in its place: of labels, a class's share.
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
        """Return the target, (N, target_channels, H, W) float32 in [-1, 1]; the batch must have targets.

        Where targets are not bounded, values outside of their range are beyond -1 and 1.
        """
        return _to_float(batch.maps["target"], self.target_range, self.target_channels, clamps=self.target_is_bounded)

    def pixels(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Return translations in [-1, 1], (N, target_channels, H, W), as files hold them.

        These are (N, 3, H, W) uint8 RGB, grey ones with three equal channels, or values in the targets' range.
        dtype: of the latter.
        """
        if self.target_is_rgb:
            return images_to_uint8(images).expand(-1, 3, -1, -1)
        return self.target_range.from_float(images, dtype) if self.target_range else images_to_uint8(images)

    def weights(self, batch: Batch) -> Tensor | None:
        """Return the weights of the target's pixels, (N, 1, H, W) float32 of at least 0; None where all are 1."""
        of_map = None if batch.weights is None else weights_to_float(batch.weights)
        if not self.class_weights or not self.n_classes:
            return of_map
        sides = (batch.source if batch.target is None else batch.target).shape[-2:]
        of_classes = weights_of_classes(batch.source, self.class_weights, *sides)
        return of_classes if of_map is None else of_map * of_classes

    def generator_inputs(self, batch: Batch, condition: Tensor) -> tuple[Tensor, ...]:
        """Return the generator's arguments for a batch and its condition (N, channels, H, W).

        Without features: the condition. With precomputed features: the condition and, in further channels, the
        features in [-1, 1]. With encoded features: condition, target and regions, which the encoder takes.
        """
        match self.features:
            case "none":
                return (condition,)
            case "precomputed":
                return (torch.cat([condition, images_to_float(batch.maps["features"])], dim=1),)
            case "encoded":
                return condition, self.target(batch), self.region_map(batch)

    def training_inputs(self, batch: Batch, condition: Tensor) -> tuple[Tensor, ...]:
        """Return the generator's arguments in training: those of `generator_inputs`, and the target with its style."""
        inputs = self.generator_inputs(batch, condition)
        return (*inputs, self.target(batch)) if self.encodes_style else inputs

    def region_map(self, batch: Batch) -> Tensor:
        """Return (N, 1, H, W) integer ids of the regions that share their features."""
        return batch.source if self.regions == "labels" else batch.maps["instances"]
