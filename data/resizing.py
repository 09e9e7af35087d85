"""Resizing of images of every type that samples may have."""

import torch
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F


def resize_image(image: Tensor, height: int, width: int) -> Tensor:
    """Resize a (C, H, W) image; antialiased bicubic, as Pillow's BICUBIC, which the originals use.

    Bicubic interpolation overshoots at edges: 8-bit images are clamped to their type, others to the image's own range,
    so that no depth becomes negative.
    """
    if image.dtype == torch.uint8:
        return _bicubic(image, height, width)
    values = image.float()
    lowest, highest = values.aminmax()
    resized = _bicubic(values, height, width).clamp_(lowest, highest)
    return resized if image.is_floating_point() else resized.round_().to(image.dtype)


def resize_weights(weights: Tensor, height: int, width: int) -> Tensor:
    """Resize a (1, H, W) map of weights; antialiased bilinear, which does not overshoot: weights stay above 0."""
    resized = F.resize(weights.float(), [height, width], interpolation=InterpolationMode.BILINEAR, antialias=True)
    return resized if weights.is_floating_point() else resized.round_().to(weights.dtype)


def _bicubic(image: Tensor, height: int, width: int) -> Tensor:
    return F.resize(image, [height, width], interpolation=InterpolationMode.BICUBIC, antialias=True)
