"""Weights of pixels, which multiply the distances of images and of features: 0 ignores a pixel."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

_LEAST_SUM = torch.finfo(torch.float32).tiny  # of the weights of a layer: where all are 0, the mean is 0 and no NaN


@dataclass(frozen=True)
class PixelWeights:
    """The weights of the pixels of a batch, and, resized by area, of the places of networks' layers.

    weights: (N, 1, H, W) float32 of at least 0.

    Means are divided by the sum of the weights over the batch, as in torch's weighted cross entropy. So they compare
    with those without weights, the balance with the adversarial loss stays however much is ignored, and only the ratios
    of weights matter. Passes and processes divide by sums of their own.
    """

    weights: Tensor

    @property
    def mean_weight(self) -> Tensor:
        """The mean of the weights, 0-d."""
        return self.weights.mean()

    def mean(self, values: Tensor) -> Tensor:
        """Return the weighted mean of (N, C, h, w) values, 0-d, in float32 or finer; 0 where all weights are 0."""
        dtype = torch.promote_types(values.dtype, torch.float32)
        n_channels, height, width = values.shape[1:]
        weights = F.adaptive_avg_pool2d(self.weights, (height, width))
        shares = weights / weights.sum().clamp_min(_LEAST_SUM)
        return (values.sum(dim=1, keepdim=True, dtype=dtype) * shares).sum() / n_channels


@dataclass(frozen=True)
class LossWeights:
    """The weights of a translation.

    of_images: those of the images as they are. of_discriminated: those of the images as the discriminator sees them.
    """

    of_images: PixelWeights
    of_discriminated: PixelWeights

    @classmethod
    def of(cls, weights: Tensor | None, move: Callable[[Tensor], Tensor]) -> Self | None:
        """Return the weights of images, (N, 1, H, W) float32, which `move` moves as the discriminator sees them."""
        return None if weights is None else cls(PixelWeights(weights), PixelWeights(move(weights)))
