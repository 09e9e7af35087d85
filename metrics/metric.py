"""The types of metrics in the registry metrics.METRICS."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from utils.pretrained import PretrainedFile


class ImageComparison(Protocol):
    """Compares a translated image with its target. protocol: Description of the method for metrics.json."""

    protocol: dict[str, Any]

    def __call__(self, fake: Tensor, target: Tensor) -> float:
        """Return the figure of two (3, H, W) uint8 images."""


class FeatureNetwork(Protocol):
    """Computes the features of an image. protocol: Description of the method for metrics.json."""

    protocol: dict[str, Any]

    def __call__(self, image: Tensor, number: int) -> Tensor:
        """Return features, on the CPU, of a (3, H, W) uint8 image; number: Its number in its set."""


class SetScore(NamedTuple):
    """A figure of two sets of images, and its standard deviation if it is estimated from random subsets."""

    value: float
    deviation: float | None = None


@dataclass(frozen=True)
class Metric:
    """A figure of each translated image and its target.

    title: Name in logs and galleries.
    higher_is_better: None if neither lower nor higher is better.
    of: Input: all images; values in their unit, of images that are not 8-bit RGB; weighted pixels; weighted values;
        label maps, if metrics.label_colors is set; shifted images, if metrics.shift_reach is above 0.
    least_images: Number of images that it needs.
    needs_pairs: Whether it compares a translated image with its own target.
    is_optional: Whether it is computed only if metrics.extra or the method names it.
    """

    title: str
    higher_is_better: bool | None
    of: Literal["images", "values", "weighted", "weighted values", "labels", "shifted"] = "images"
    least_images: int = 1
    needs_pairs: ClassVar[bool] = True
    is_optional: ClassVar[bool] = False

    @property
    def weighs_pixels(self) -> bool:
        """Whether it depends on weights of pixels."""
        return self.of.startswith("weighted")


@dataclass(frozen=True, kw_only=True)
class PairMetric(Metric):
    """A figure of each translated image and its target that needs a network or another program.

    load: Returns the comparison on a device.
    weights: File in torch's cache that it reads, if any.
    """

    is_optional = True
    load: Callable[[torch.device], ImageComparison]
    weights: PretrainedFile | None = None


@dataclass(frozen=True)
class FeatureSource:
    """A network whose features several set metrics share.

    name: Name in metrics.json. load: Returns it on a device, for sets of a number of images.
    weights: File in torch's cache that it reads, if any.
    """

    name: str
    load: Callable[[torch.device, int], FeatureNetwork]
    weights: PretrainedFile | None = None


@dataclass(frozen=True, kw_only=True)
class SetMetric(Metric):
    """A figure of all translated images against all targets.

    features: Network that computes the features of the images.
    score: Computes the figure from the features of all translated images and of all targets.
    least_images: Number of images in each set; a single image has no spread.
    protocol: Description of the score for metrics.json, in addition to the network's protocol.
    """

    features: FeatureSource
    score: Callable[[Sequence[Tensor], Sequence[Tensor]], SetScore]
    least_images: int = 2
    needs_pairs = False
    is_optional = True
    protocol: str | None = None
