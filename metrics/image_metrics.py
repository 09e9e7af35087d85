"""How close a translated image is to its target, pixel by pixel and in structure."""

from dataclasses import dataclass
from typing import cast

import torch.nn.functional as F
from torch import Tensor
from torchmetrics.functional.image import (
    multiscale_structural_similarity_index_measure,
    peak_signal_noise_ratio,
    structural_similarity_index_measure,
)

MAX_PSNR = 100.0  # dB, in place of infinity for equal images
SSIM_WINDOW = 11  # pixels
MS_SSIM_WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)  # of the scales, Wang et al. 2003


@dataclass(frozen=True)
class ImageMetrics:
    """A translated image against its target.

    l1: mean absolute difference, 0 to 1 for black against white; lower is better.
    psnr: peak signal-to-noise ratio in dB, at most MAX_PSNR; higher is better.
    ssim: structural similarity (Wang et al. 2004; Gaussian window of 11 pixels, sigma 1.5), up to 1.
    ms_ssim: the same over up to five resolutions (Wang et al. 2003), 0 to 1.
    gradient, target_gradient: mean gradient magnitude of the translated image and of the target, 0 to 1.
    """

    l1: float
    psnr: float
    ssim: float
    ms_ssim: float
    gradient: float
    target_gradient: float


def image_metrics(fake: Tensor, target: Tensor) -> ImageMetrics:
    """Compare two (3, H, W) uint8 images; for SSIM, sides smaller than its window are extended by their edges."""
    fake, target = (image.unsqueeze(0).float() / 255 for image in (fake, target))
    wide_fake, wide_target = (extended(image, SSIM_WINDOW) for image in (fake, target))
    weights = ms_ssim_weights(min(wide_fake.shape[-2:]))
    multiscale = multiscale_structural_similarity_index_measure(
        wide_fake, wide_target, data_range=1.0, betas=weights, normalize="relu"
    )
    return ImageMetrics(
        l1=float((fake - target).abs().mean()),
        psnr=min(MAX_PSNR, float(peak_signal_noise_ratio(fake, target, data_range=1.0))),
        ssim=float(cast(Tensor, structural_similarity_index_measure(wide_fake, wide_target, data_range=1.0))),
        ms_ssim=float(multiscale),
        gradient=float(mean_gradient_magnitude(fake)),
        target_gradient=float(mean_gradient_magnitude(target)),
    )


def extended(image: Tensor, side: int) -> Tensor:
    """(1, C, H, W) images, continued by their last rows and columns up to `side` pixels each way."""
    down, across = (max(0, side - length) for length in image.shape[-2:])
    return F.pad(image, (0, across, 0, down), mode="replicate")


def ms_ssim_weights(side: int) -> tuple[float, ...]:
    """The weights of the scales for images with a shorter side of `side` pixels; of fewer than five they sum to 1.

    A scale halves the one before; the window of 11 pixels has to fit in the last, and torchmetrics wants more than that
    of five scales, for which 176 pixels are enough.
    """
    n_scales = next(n for n in range(5, 0, -1) if n == 1 or min(side >> (n - 1), side // (n - 1) ** 2) >= SSIM_WINDOW)
    weights = MS_SSIM_WEIGHTS[:n_scales]
    if n_scales == len(MS_SSIM_WEIGHTS):  # as published, which sums to 1.0001
        return weights
    return tuple(weight / sum(weights) for weight in weights)


def mean_gradient_magnitude(images: Tensor) -> Tensor:
    """Mean Euclidean norm of the forward differences of (N, C, H, W) images, over all pixels; a 0-d tensor."""
    across = images[..., :-1, 1:] - images[..., :-1, :-1]
    down = images[..., 1:, :-1] - images[..., :-1, :-1]
    magnitudes = (across.square() + down.square()).sqrt()
    return magnitudes.mean() if magnitudes.numel() else magnitudes.sum()  # 0 of a single row or column
