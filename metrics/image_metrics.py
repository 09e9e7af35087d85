"""L1, PSNR, SSIM, MS-SSIM and gradients of a translated image and its target."""

from dataclasses import dataclass
from typing import cast

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


@dataclass(frozen=True)
class ImageMetrics:
    """The figures of a translated image and its target.

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
    """Compare two (C, H, W) images, uint8 or float32 in [0, 1].

    For SSIM, sides shorter than its window continue their edges.
    """
    fake, target = (image.unsqueeze(0) for image in (fake, target))
    if not fake.is_floating_point():
        fake, target = fake.float() / 255, target.float() / 255
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
