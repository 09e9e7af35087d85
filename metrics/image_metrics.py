"""L1, PSNR, SSIM, MS-SSIM and gradients of a translated image and its target, some also with weights of pixels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics.functional.image import (
    multiscale_structural_similarity_index_measure,
    peak_signal_noise_ratio,
    structural_similarity_index_measure,
)

MAX_PSNR = 100.0  # dB; equal images would have infinity, which JSON cannot hold
SSIM_WINDOW = 11  # pixels
MS_SSIM_WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)  # of the scales, Wang et al. 2003


@dataclass(frozen=True, eq=False)
class Bounds:
    """The values that metrics take as 0 and 1: (C or 1, 1, 1) float32 each.

    are_closed: whether values outside become one of them.
    """

    low: Tensor
    high: Tensor
    are_closed: bool = True

    @classmethod
    def of(cls, bounds: Sequence[float], *, are_closed: bool = True) -> Self:
        """Return the bounds of [low, high], or of the low and high of each channel in turn."""
        low, high = (torch.tensor(part, dtype=torch.float32).view(-1, 1, 1) for part in (bounds[::2], bounds[1::2]))
        return cls(low, high, are_closed)

    def shares(self, image: Tensor) -> Tensor:
        """Return a (C, H, W) image of any type as float32; in [0, 1], unless bounds are open."""
        shares = (image.float() - self.low) / (self.high - self.low)
        return shares.clamp_(0, 1) if self.are_closed else shares

    def levels(self, image: Tensor) -> Tensor:
        """Return a (C, H, W) image as uint8, 0 to 255 over the range; a single channel becomes three."""
        levels = self.shares(image).clamp(0, 1).mul_(255).round_().to(torch.uint8)
        return levels.expand(3, -1, -1) if len(levels) == 1 else levels


def image_metrics(fake: Tensor, target: Tensor) -> dict[str, float]:
    """Compare two (C, H, W) images, uint8 or float32 in [0, 1], and return the figures by name.

    l1: mean absolute difference, 0 to 1 for black against white; lower is better.
    psnr: peak signal-to-noise ratio in dB, at most MAX_PSNR; higher is better.
    ssim: structural similarity (Wang et al. 2004; Gaussian window of 11 pixels, sigma 1.5), up to 1. Sides shorter than
        the window continue their edges.
    ms_ssim: the same over up to five resolutions (Wang et al. 2003), 0 to 1.
    gradient, target_gradient: mean gradient magnitude of the translated image and of the target, 0 to 1.
    """
    fake, target = _batch_of_floats(fake), _batch_of_floats(target)
    wide_fake, wide_target = (extended(image, SSIM_WINDOW) for image in (fake, target))
    weights = ms_ssim_weights(min(wide_fake.shape[-2:]))
    multiscale = multiscale_structural_similarity_index_measure(
        wide_fake, wide_target, data_range=1.0, betas=weights, normalize="relu"
    )
    return {
        "l1": float((fake - target).abs().mean()),
        "psnr": min(MAX_PSNR, float(peak_signal_noise_ratio(fake, target, data_range=1.0))),
        "ssim": float(cast(Tensor, structural_similarity_index_measure(wide_fake, wide_target, data_range=1.0))),
        "ms_ssim": float(multiscale),
        "gradient": float(mean_gradient_magnitude(fake)),
        "target_gradient": float(mean_gradient_magnitude(target)),
    }


def extended(image: Tensor, side: int) -> Tensor:
    """Return (1, C, H, W) images whose last rows and columns are repeated until both sides have `side` pixels."""
    down, across = (max(0, side - length) for length in image.shape[-2:])
    return F.pad(image, (0, across, 0, down), mode="replicate")


def ms_ssim_weights(side: int) -> tuple[float, ...]:
    """Return the weights of MS-SSIM's scales for images whose shorter side has `side` pixels.

    A scale has half the sides of the one before, and the window of 11 pixels must fit in the last. torchmetrics
    demands more for some numbers of scales; from 176 pixels on there are all five. The weights of fewer sum to 1.
    """
    n_scales = next(n for n in range(5, 0, -1) if n == 1 or min(side >> (n - 1), side // (n - 1) ** 2) >= SSIM_WINDOW)
    weights = MS_SSIM_WEIGHTS[:n_scales]
    if n_scales == len(MS_SSIM_WEIGHTS):  # as published, where they sum to 1.0001
        return weights
    return tuple(weight / sum(weights) for weight in weights)


def mean_gradient_magnitude(images: Tensor) -> Tensor:
    """Return the mean Euclidean norm of the forward differences of (N, C, H, W) images, a 0-d tensor."""
    across = images[..., :-1, 1:] - images[..., :-1, :-1]
    down = images[..., 1:, :-1] - images[..., :-1, :-1]
    magnitudes = (across.square() + down.square()).sqrt()
    return magnitudes.mean() if magnitudes.numel() else magnitudes.sum()  # 0 for a single row or column


def weighted_metrics(fake: Tensor, target: Tensor, weights: Tensor) -> dict[str, float]:
    """Return `l1_weighted`, `psnr_weighted` and `ssim_weighted`; nothing where all weights are 0.

    Each is computed from a mean over the pixels, divided by the sum of the weights. SSIM of a pixel sees its window,
    pixels of weight 0 in it included.

    fake, target: (C, H, W) images, uint8 or float32 in [0, 1]. weights: (1, H, W) float32 of at least 0.
    """
    total = float(weights.double().sum())
    if total == 0:
        return {}
    fake, target = _batch_of_floats(fake), _batch_of_floats(target)
    shares = weights.double() / total
    difference = fake - target
    squared_error = _weighted_mean(difference.square(), shares)
    return {
        "l1_weighted": _weighted_mean(difference.abs(), shares),
        "psnr_weighted": min(MAX_PSNR, -10 * math.log10(squared_error)) if squared_error > 0 else MAX_PSNR,
        "ssim_weighted": _weighted_ssim(fake, target, shares),
    }


def _weighted_ssim(fake: Tensor, target: Tensor, shares: Tensor) -> float:
    height, width = fake.shape[-2:]
    wide_fake, wide_target = (extended(image, SSIM_WINDOW) for image in (fake, target))
    result = structural_similarity_index_measure(wide_fake, wide_target, data_range=1.0, return_full_image=True)
    similarity = cast(tuple[Tensor, Tensor], result)[1]
    down, across = similarity.shape[-2] - height, similarity.shape[-1] - width
    shares = F.pad(shares.unsqueeze(0), (0, across, 0, down), mode="replicate")[0]  # as `extended` repeats edges
    return _weighted_mean(similarity, shares / shares.sum())


def _weighted_mean(values: Tensor, shares: Tensor) -> float:
    """Return the weighted mean of (1, C, H, W) values."""
    return float((values.double().mean(dim=1) * shares).sum())


def _batch_of_floats(image: Tensor) -> Tensor:
    """Return a (C, H, W) image as (1, C, H, W) floats; uint8 in [0, 1]."""
    return (image if image.is_floating_point() else image.float() / 255).unsqueeze(0)
