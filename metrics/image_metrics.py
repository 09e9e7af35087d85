"""L1, PSNR, SSIM, MS-SSIM and gradients of a translated image and its target, optionally with pixel weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.structural_similarity import WINDOW, structural_similarity

MAX_PSNR = 100.0  # dB, for equal images; JSON cannot hold infinity


@dataclass(frozen=True, eq=False)
class Bounds:
    """The image values that metrics map to 0 and 1: `low` and `high`, (C or 1, 1, 1) float32 each.

    are_closed: Whether values outside the bounds are clipped.
    """

    low: Tensor
    high: Tensor
    are_closed: bool = True

    @classmethod
    def of(cls, bounds: Sequence[float], *, are_closed: bool = True) -> Self:
        """Return bounds from [low, high], or from [low, high, low, high, …] with a pair for each channel."""
        low, high = (torch.tensor(part, dtype=torch.float32).view(-1, 1, 1) for part in (bounds[::2], bounds[1::2]))
        return cls(low, high, are_closed)

    def shares(self, image: Tensor) -> Tensor:
        """Return a (C, H, W) image of any dtype as float32, scaled from the bounds to [0, 1]."""
        shares = (image.float() - self.low) / (self.high - self.low)
        return shares.clamp_(0, 1) if self.are_closed else shares

    def levels(self, image: Tensor) -> Tensor:
        """Return a (C, H, W) image as uint8, with the bounds at 0 and 255. Repeat a single channel three times."""
        levels = self.shares(image).clamp(0, 1).mul_(255).round_().to(torch.uint8)
        return levels.expand(3, -1, -1) if len(levels) == 1 else levels


def image_metrics(fake: Tensor, target: Tensor, weights: Tensor | None = None) -> dict[str, float]:
    """Compare two (C, H, W) images, uint8 or float32 in [0, 1], and return the figures by name.

    l1: Mean absolute difference, 0 to 1. psnr: Peak signal-to-noise ratio in dB, at most MAX_PSNR.
    ssim: Structural similarity (Wang et al. 2004; Gaussian window of 11 pixels, sigma 1.5), up to 1. Smaller
        images are padded with their edges. ms_ssim: SSIM over up to five resolutions (Wang et al. 2003), 0 to 1.
    gradient, target_gradient: Mean gradient magnitude of the translated image and of the target, 0 to 1.
    l1_weighted, psnr_weighted, ssim_weighted: These metrics with weighted means; missing if all weights are 0. The SSIM
        of a pixel also depends on pixels with weight 0 in its window.

    weights: Weights of the pixels, (1, H, W) float32 of at least 0; None for equal weights.
    """
    fake, target = as_floats(fake)[None], as_floats(target)[None]
    similarity, multiscale = structural_similarity(extended(fake, WINDOW), extended(target, WINDOW))
    difference = fake - target
    figures = {
        "l1": difference.abs().mean(),
        "psnr": _psnr(difference.square().mean()),
        "ssim": similarity.mean(),
        "ms_ssim": multiscale,
        "gradient": mean_gradient_magnitude(fake),
        "target_gradient": mean_gradient_magnitude(target),
    }
    if weights is not None and weights.any():
        weights = weights.to(difference.device)[None]
        figures["l1_weighted"] = weighted_mean(difference.abs(), weights)
        figures["psnr_weighted"] = _psnr(weighted_mean(difference.square(), weights))
        figures["ssim_weighted"] = weighted_mean(similarity, extended(weights, WINDOW))
    return dict(zip(figures, torch.stack([*figures.values()]).tolist(), strict=True))  # waits for a GPU only once


def extended(image: Tensor, side: int) -> Tensor:
    """Repeat the last rows and columns of (1, C, H, W) images until each side has at least `side` pixels."""
    down, across = (max(0, side - length) for length in image.shape[-2:])
    return F.pad(image, (0, across, 0, down), mode="replicate")


def mean_gradient_magnitude(images: Tensor) -> Tensor:
    """Return the mean Euclidean norm of the forward differences of (N, C, H, W) images, 0-d."""
    across = images[..., :-1, 1:] - images[..., :-1, :-1]
    down = images[..., 1:, :-1] - images[..., :-1, :-1]
    magnitudes = (across.square() + down.square()).sqrt()
    return magnitudes.mean() if magnitudes.numel() else magnitudes.sum()  # 0 for a single row or column


def _psnr(squared_error: Tensor) -> Tensor:
    return (-10 * squared_error.log10()).clamp(max=MAX_PSNR)


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Return the mean of (1, C, H, W) values with (1, 1, H, W) weights, 0-d float64."""
    weights = weights.double()
    return (values.double().mean(dim=1, keepdim=True) * weights).sum() / weights.sum()


def as_floats(image: Tensor) -> Tensor:
    """Return a (C, H, W) image as floats. Scale uint8 to [0, 1]."""
    return image if image.is_floating_point() else image.float() / 255
