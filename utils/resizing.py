"""Antialiased resizing as torchvision does it, the import of which takes as long as that of torch."""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor


def resize(image: Tensor, height: int, width: int, mode: Literal["bilinear", "bicubic"] = "bilinear") -> Tensor:
    """Return a (C, H, W) image, uint8 or float32, at another size; bicubic float32 may overshoot its values."""
    if image.shape[1:] == (height, width):
        return image
    batch = image.permute(1, 2, 0)[None].permute(0, 3, 1, 2)  # image[None], whose strides show torch the memory format
    return F.interpolate(batch, (height, width), mode=mode, align_corners=False, antialias=True)[0]
