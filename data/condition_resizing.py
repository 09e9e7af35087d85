"""The condition of a discriminator whose images have another size than the sources."""

import torch
import torch.nn.functional as F
from torch import Tensor


def resize_condition(condition: Tensor, scale: float, *, n_image_channels: int) -> Tensor:
    """Return a condition (N, C, H, W) at `scale` times its sides, a power of 2.

    Enlarged, the first n_image_channels are interpolated, bilinearly; the others, one-hot labels and edges, repeat
    their pixels and stay 0 or 1. Reduced, each pixel is the mean of those in its place: of labels, a class's share.
    """
    if scale == 1:
        return condition
    if scale < 1:
        return F.avg_pool2d(condition, kernel_size=round(1 / scale))
    image, maps = condition.split([n_image_channels, condition.shape[1] - n_image_channels], dim=1)
    parts = [F.interpolate(maps, scale_factor=scale, mode="nearest")] if maps.shape[1] else []
    if n_image_channels:
        parts.insert(0, F.interpolate(image, scale_factor=scale, mode="bilinear", align_corners=False))
    return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
