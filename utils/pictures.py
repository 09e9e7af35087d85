"""Images side by side in one."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

GAP = 4  # pixels of white between images


def picture_table(rows: Sequence[Sequence[Tensor]]) -> Tensor:
    """One (3, H, W) uint8 image from rows of (3, h, w) uint8 images; smaller ones are filled up with white."""
    height = max(image.shape[1] for row in rows for image in row) + GAP
    width = max(image.shape[2] for row in rows for image in row) + GAP
    filled = [
        torch.cat(
            [F.pad(image, (0, width - image.shape[2], 0, height - image.shape[1]), value=255) for image in row],
            2,
        )
        for row in rows
    ]
    return torch.cat(filled, dim=1)[:, :-GAP, :-GAP]
