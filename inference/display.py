"""Images of any channels and values as 8-bit RGB, for display."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from utils.resizing import resize

PERCENTILES = (1, 99)  # which become black and white
_MAX_PIXELS = 2**16  # that the percentiles are computed from


def picture(image: Tensor, channels: Sequence[int] | None = None, like: Tensor | None = None) -> Tensor:
    """Return a (C, H, W) image of any type as (3, H, W) uint8, each channel stretched between two of its percentiles.

    channels: the one or three channels to show, counted from 1; None or what the image lacks: the first three, or the
        first of fewer.
    like: an image whose percentiles are taken, so that both can be compared.
    """
    n_channels = len(image)
    if not channels or max(channels) > n_channels:
        channels = (1, 2, 3) if n_channels >= 3 else (1,)
    chosen = [channel - 1 for channel in channels]
    values, reference = (of.cpu()[chosen].float() for of in (image, image if like is None else like))
    sampled = reference.flatten(1)[:, :: -(-reference[0].numel() // _MAX_PIXELS)]
    bounds = torch.from_numpy(np.percentile(sampled.numpy(), PERCENTILES, axis=1)).float()
    low, high = bounds[0].view(-1, 1, 1), bounds[1].view(-1, 1, 1)
    stretched = (values - low) / (high - low).clamp_min(1e-30)
    return stretched.mul_(255).round_().clamp_(0, 255).nan_to_num_(0).to(torch.uint8).expand(3, -1, -1)


def weights_picture(weights: Tensor) -> Tensor:
    """Return (1, H, W) float32 weights as (3, H, W) uint8: black where they are 0, white where they are largest."""
    grey = weights.cpu() * (255 / weights.max().cpu().clamp_min(1e-30))
    return grey.round_().clamp_(0, 255).to(torch.uint8).expand(3, -1, -1)


def scaled_picture(image: Tensor, scale: float) -> Tensor:
    """Return a (3, H, W) uint8 image at `scale` times its sides, rounded up: its pixels repeated, or their means."""
    if scale == 1:
        return image
    if scale > 1:
        return image.repeat_interleave(round(scale), 1).repeat_interleave(round(scale), 2)
    height, width = (math.ceil(side * scale) for side in image.shape[1:])
    return resize(image, height, width)
