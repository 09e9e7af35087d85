"""The classes of the metrics in metrics.METRICS."""

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
        """Return the features, on the CPU, of a (3, H, W) uint8 image. number: Number of the image in its set."""


class SetScore(NamedTuple):
    """A score of two sets of images, and its standard deviation if random subsets are used."""

    value: float
    deviation: float | None = None


@dataclass(frozen=True)
class Metric:
    """A figure (measured value) of each translated image and its target.

    title: Name in logs and galleries.
    higher_is_better: Whether higher values are better; None if a certain value is best, such as 1 for sharpness.
    of: What is compared: images, values in their own unit (not for 8-bit RGB), weighted pixels, weighted values, label
        maps (needs metrics.label_colors) or shifted images (needs metrics.shift_reach).
    least_images: Least number of images.
    needs_pairs: Whether the metric compares a translated image with its own target.
    is_optional: Whether the metric is computed only if metrics.extra or the training method names it.
    """

    title: str
    higher_is_better: bool | None
    of: Literal["images", "values", "weighted", "weighted values", "labels", "shifted"] = "images"
    least_images: int = 1
    needs_pairs: ClassVar[bool] = True
    is_optional: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class PairMetric(Metric):
    """A metric of a translated image and its target, computed by a network or another program.

    load: Function that returns the comparison on a device.
    weights: Weight file in torch's cache, if any.
    """

    is_optional = True
    load: Callable[[torch.device], ImageComparison]
    weights: PretrainedFile | None = None


@dataclass(frozen=True)
class FeatureSource:
    """A network that computes features for several set metrics.

    name: Name in metrics.json. load: Function that returns the network for a device and a number of images.
    weights: Weight file in torch's cache, if any.
    """

    name: str
    load: Callable[[torch.device, int], FeatureNetwork]
    weights: PretrainedFile | None = None


@dataclass(frozen=True, kw_only=True)
class SetMetric(Metric):
    """A metric that compares the set of all translated images with the set of all targets.

    features: Network that computes the features of the images.
    score: Computes the figure from the features of all translated images and of all targets.
    least_images: Least number of images in each set. The default is 2, because one image has no variance.
    protocol: Description of the score for metrics.json, in addition to the network's protocol.
    """

    features: FeatureSource
    score: Callable[[Sequence[Tensor], Sequence[Tensor]], SetScore]
    least_images: int = 2
    needs_pairs = False
    is_optional = True
    protocol: str | None = None
