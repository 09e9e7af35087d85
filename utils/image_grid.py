"""Several images in one."""

from collections.abc import Sequence

import torch
from torch import Tensor

GAP = 4  # pixels of white between images


def picture_table(rows: Sequence[Sequence[Tensor]]) -> Tensor:
    """Return one (3, H, W) uint8 image of rows of (3, h, w) uint8 images, in cells as large as the largest."""
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
    """Return the absolute difference of two (3, H, W) uint8 images as a uint8 image; black where they are equal."""
    return (fake.int() - target.int()).abs().to(torch.uint8)
