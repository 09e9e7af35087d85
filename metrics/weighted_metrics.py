"""L1, PSNR and SSIM of a translated image and its target, in which pixels have weights."""

import math
from typing import cast

import torch.nn.functional as F
from torch import Tensor
from torchmetrics.functional.image import structural_similarity_index_measure

from metrics.image_metrics import MAX_PSNR, SSIM_WINDOW, extended


def weighted_metrics(fake: Tensor, target: Tensor, weights: Tensor) -> dict[str, float]:
    """Return `l1_weighted`, `psnr_weighted` and `ssim_weighted`; nothing where all weights are 0.

    Each is computed from a mean over the pixels, divided by the sum of the weights. SSIM of a pixel sees its window,
    pixels of weight 0 in it included.

    fake, target: (C, H, W) images, uint8 or float32 in [0, 1]. weights: (1, H, W) float32 of at least 0.
    """
    total = float(weights.double().sum())
    if total == 0:
        return {}
    fake, target = (image.unsqueeze(0) for image in (fake, target))
    if not fake.is_floating_point():
        fake, target = fake.float() / 255, target.float() / 255
    shares = weights.double() / total
    difference = fake - target
    squared_error = _mean(difference.square(), shares)
    return {
        "l1_weighted": _mean(difference.abs(), shares),
        "psnr_weighted": min(MAX_PSNR, -10 * math.log10(squared_error)) if squared_error > 0 else MAX_PSNR,
        "ssim_weighted": _ssim(fake, target, shares),
    }


def _ssim(fake: Tensor, target: Tensor, shares: Tensor) -> float:
    height, width = fake.shape[-2:]
    wide_fake, wide_target = (extended(image, SSIM_WINDOW) for image in (fake, target))
    result = structural_similarity_index_measure(wide_fake, wide_target, data_range=1.0, return_full_image=True)
    similarity = cast(tuple[Tensor, Tensor], result)[1]
    down, across = similarity.shape[-2] - height, similarity.shape[-1] - width
    shares = F.pad(shares.unsqueeze(0), (0, across, 0, down), mode="replicate")[0]  # as `extended` repeats edges
    return _mean(similarity, shares / shares.sum())


def _mean(values: Tensor, shares: Tensor) -> float:
    """Return the weighted mean of (1, C, H, W) values."""
    return float((values.double().mean(dim=1) * shares).sum())
