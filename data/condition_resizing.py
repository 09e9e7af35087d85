"""The condition of a discriminator whose images have another size than the sources."""

import torch.nn.functional as F
from torch import Tensor


def resize_condition(condition: Tensor, scale: float, *, images: slice) -> Tensor:
    """Return a condition (N, C, H, W) at `scale` times its sides, a power of 2.

    images: the channels that are images. Enlarged, they are interpolated, bilinearly; the others, one-hot labels and
    edges, repeat their pixels and stay 0 or 1. Reduced, each pixel is the mean of those in its place: of labels, a
    class's share.
    """
    if scale == 1:
        return condition
    if scale < 1:
        return F.avg_pool2d(condition, kernel_size=round(1 / scale))
    enlarged = F.interpolate(condition, scale_factor=scale, mode="nearest")
    if condition[:, images].numel():
        between = F.interpolate(condition[:, images], scale_factor=scale, mode="bilinear", align_corners=False)
        enlarged[:, images] = between
    return enlarged
