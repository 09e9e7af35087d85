"""Images side by side in one."""

from collections.abc import Sequence

import torch
from torch import Tensor

GAP = 4  # pixels of white between images


def picture_table(rows: Sequence[Sequence[Tensor]]) -> Tensor:
    """One (3, H, W) uint8 image from rows of (3, h, w) uint8 images, in cells of the largest one's size."""
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
    """The absolute difference of two (3, H, W) uint8 images, as such an image; black where they are equal."""
    return (fake.int() - target.int()).abs().to(torch.uint8)
