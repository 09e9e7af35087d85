"""Functions that make, resize, compare and join pictures, as tensors."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from utils.label_colors import CITYSCAPES


def label_colors(n_classes: int) -> Tensor:
    """Return RGB colours of K classes, (K, 3) uint8: Cityscapes' colours if K is 35, otherwise PASCAL VOC's colours."""
    if n_classes == len(CITYSCAPES):
        return torch.tensor([list(bytes.fromhex(kind.color)) for kind in CITYSCAPES], dtype=torch.uint8)
    ids = torch.arange(n_classes)[:, None]
    channel = torch.arange(3)  # bits 0, 3, 6, ... of an id are red's bits 7, 6, 5, ...; bits 1, 4, 7, ... are green's
    bits = [((ids >> (3 * place + channel)) & 1) << (7 - place) for place in range(8)]
    return torch.stack(bits).sum(0).to(torch.uint8)


def colorize(labels: Tensor, colors: Tensor) -> Tensor:
    """Return a (3, H, W) uint8 picture of (1, H, W) class ids, with colours (K, 3) uint8. Pixels of id K are black."""
    table = torch.cat([colors, colors.new_zeros(1, 3)])
    return table[labels[0].long()].permute(2, 0, 1)


GAP = 4  # white pixels between images


def picture_table(rows: Sequence[Sequence[Tensor]]) -> Tensor:
    """Join rows of (3, h, w) uint8 images into a (3, H, W) uint8 table. All cells are as large as the largest image."""
    height = max(image.shape[1] for row in rows for image in row) + GAP
    width = max(image.shape[2] for row in rows for image in row) + GAP
    n_columns = max(len(row) for row in rows)
    table = torch.full((3, len(rows) * height - GAP, n_columns * width - GAP), 255, dtype=torch.uint8)
    for number, row in enumerate(rows):
        for column, image in enumerate(row):
            top, left = number * height, column * width
            table[:, top : top + image.shape[1], left : left + image.shape[2]] = image
    return table


def difference(fake: Tensor, target: Tensor) -> Tensor:
    """Return the absolute difference of two (3, H, W) uint8 images, (3, H, W) uint8."""
    return (fake.int() - target.int()).abs().to(torch.uint8)


def resize(image: Tensor, height: int, width: int, mode: Literal["bilinear", "bicubic"] = "bilinear") -> Tensor:
    """Resize a (C, H, W) image, uint8 or float32. Do not use torchvision, because its import is slow."""
    if image.shape[1:] == (height, width):
        return image
    batch = image.permute(1, 2, 0)[None].permute(0, 3, 1, 2)  # like image[None], but keeps channels last
    return F.interpolate(batch, (height, width), mode=mode, align_corners=False, antialias=True)[0]


def means_of_squares(image: Tensor, side: int) -> Tensor:
    """Return the means of `side` x `side` blocks of a (C, H, W) image, in its dtype. Compute one strip at a time."""
    height, width = image.shape[1:]
    n_rows = max(1, 2**22 // (width * side)) * side
    means = [
        F.avg_pool2d(image[:, top : top + n_rows].float(), side, ceil_mode=True, count_include_pad=False)
        for top in range(0, height, n_rows)
    ]
    result = torch.cat(means, dim=1)
    return result if image.is_floating_point() else result.round_().to(image.dtype)


PERCENTILES = (1, 99)  # the values at these percentiles become black and white
_MAX_PIXELS = 2**16  # number of sampled pixels for the percentiles


def picture(image: Tensor, like: Tensor | None = None) -> Tensor:
    """Return the first three channels of a (C, H, W) image as (3, H, W) uint8. If C < 3, use only the first channel.

    Each channel is stretched from black to white between two percentiles of this image, or of the image `like`.
    """
    n_shown = 3 if len(image) >= 3 else 1
    values, reference = (of[:n_shown].cpu().float() for of in (image, image if like is None else like))
    sampled = reference.flatten(1)[:, :: -(-reference[0].numel() // _MAX_PIXELS)]
    bounds = torch.from_numpy(np.percentile(sampled.numpy(), PERCENTILES, axis=1)).float()
    low, high = bounds[0].view(-1, 1, 1), bounds[1].view(-1, 1, 1)
    stretched = (values - low) / (high - low).clamp_min(1e-30)
    return stretched.mul_(255).round_().clamp_(0, 255).nan_to_num_(0).to(torch.uint8).expand(3, -1, -1)


def weights_picture(weights: Tensor) -> Tensor:
    """Return a (3, H, W) uint8 picture of (1, H, W) float32 weights: 0 is black, and the largest weight is white."""
    grey = weights.cpu() * (255 / weights.max().cpu().clamp_min(1e-30))
    return grey.round_().clamp_(0, 255).to(torch.uint8).expand(3, -1, -1)


def scaled_picture(image: Tensor, scale: float) -> Tensor:
    """Scale a (3, H, W) uint8 image. If `scale` is less than 1, round the new size up."""
    if scale == 1:
        return image
    if scale > 1:
        return image.repeat_interleave(round(scale), 1).repeat_interleave(round(scale), 2)
    height, width = (math.ceil(side * scale) for side in image.shape[1:])
    return resize(image, height, width)
