"""The kinds of metrics that the registry metrics.METRICS lists."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from utils.pretrained import PretrainedFile


class ImageComparison(Protocol):
    """Compares a translated image with its target. protocol: how, for metrics.json."""

    protocol: dict[str, Any]

    def __call__(self, fake: Tensor, target: Tensor) -> float:
        """Return the figure of two (3, H, W) uint8 images."""


class FeatureNetwork(Protocol):
    """Computes the features of an image. protocol: how, for metrics.json."""

    protocol: dict[str, Any]

    def __call__(self, image: Tensor, number: int) -> Tensor:
        """Return features, on the CPU, of a (3, H, W) uint8 image, which has a number in its set."""


class SetScore(NamedTuple):
    """A figure of two sets of images; its standard deviation where it is estimated from random subsets."""

    value: float
    deviation: float | None = None


@dataclass(frozen=True)
class Metric:
    """A figure of each translated image and its target.

    title: Its name in logs and galleries.
    higher_is_better: None if neither lower nor higher is better.
    of: What it is computed from: any images; the values of images that are not 8-bit RGB, in their unit; pixels that
        have weights; such values of such pixels; label maps, if metrics.label_colors is set.
    least_images: Number of images that it needs.
    needs_pairs: Whether it compares a translated image with its own target.
    is_optional: Whether it is computed only if metrics.extra or the method names it.
    """

    title: str
    higher_is_better: bool | None
    of: Literal["images", "values", "weighted", "weighted values", "labels"] = "images"
    least_images: int = 1
    needs_pairs: ClassVar[bool] = True
    is_optional: ClassVar[bool] = False

    @property
    def weighs_pixels(self) -> bool:
        """Whether it depends on the weights of pixels."""
        return self.of.startswith("weighted")


@dataclass(frozen=True, kw_only=True)
class PairMetric(Metric):
    """A figure of each translated image and its target that needs a network or another program.

    load: Makes the comparison on a device.
    weights: The file that it reads from torch's cache, if any.
    """

    is_optional = True
    load: Callable[[torch.device], ImageComparison]
    weights: PretrainedFile | None = None


@dataclass(frozen=True)
class FeatureSource:
    """A network whose features several set metrics share.

    name: Its name in metrics.json. load: Makes it on a device, for sets of a number of images.
    weights: The file that it reads from torch's cache, if any.
    """

    name: str
    load: Callable[[torch.device, int], FeatureNetwork]
    weights: PretrainedFile | None = None


@dataclass(frozen=True, kw_only=True)
class SetMetric(Metric):
    """A figure of all translated images against all targets.

    features: The network that computes the features of the images.
    score: Computes the figure from the features of each translated image and of each target.
    least_images: Number of images in each of the two sets; a single image has no spread.
    protocol: How the figure is computed, for metrics.json, in addition to the network's own protocol.
    """

    features: FeatureSource
    score: Callable[[Sequence[Tensor], Sequence[Tensor]], SetScore]
    least_images: int = 2
    needs_pairs = False
    is_optional = True
    protocol: str | None = None
