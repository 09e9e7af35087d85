"""Weights of pixels in the distances of images and of features: 0 ignores a pixel."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

_LEAST_SUM = torch.finfo(torch.float32).tiny  # the mean with weights of 0 is then 0 and not NaN


@dataclass(frozen=True)
class PixelWeights:
    """Weights of the pixels of a batch, (N, 1, H, W) float32 of at least 0; resized by area for features.

    Means are divided by the sum of the weights over the batch, as in torch's weighted cross entropy. So ignored pixels
    do not change the balance with the adversarial loss.
    """

    weights: Tensor

    @property
    def mean_weight(self) -> Tensor:
        """Mean of the weights, 0-d."""
        return self.weights.mean()

    def mean(self, values: Tensor) -> Tensor:
        """Return the weighted mean of (N, C, h, w) values, 0-d, in float32 or finer; 0 if all weights are 0."""
        dtype = torch.promote_types(values.dtype, torch.float32)
        n_channels, height, width = values.shape[1:]
        weights = F.adaptive_avg_pool2d(self.weights, (height, width))
        shares = weights / weights.sum().clamp_min(_LEAST_SUM)
        return (values.sum(dim=1, keepdim=True, dtype=dtype) * shares).sum() / n_channels


@dataclass(frozen=True)
class LossWeights:
    """The weights for images, and for images that are augmented for the discriminator."""

    of_images: PixelWeights
    of_discriminated: PixelWeights

    @classmethod
    def of(cls, weights: Tensor | None, move: Callable[[Tensor], Tensor]) -> Self | None:
        """Return the weights (N, 1, H, W) float32 and `move(weights)`; None for None."""
        return None if weights is None else cls(PixelWeights(weights), PixelWeights(move(weights)))
