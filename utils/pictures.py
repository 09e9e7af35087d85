"""Pictures as tensors: label maps in colours, differences, and several pictures in one."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from utils.label_colors import CITYSCAPES


def color_table(colors: Iterable[str]) -> Tensor:
    """Return (K, 3) uint8 RGB of K colours in hexadecimal digits."""
    return torch.tensor([list(bytes.fromhex(color)) for color in colors], dtype=torch.uint8)


def label_colors(n_classes: int) -> Tensor:
    """Return (K, 3) uint8 RGB colours of K classes: of 35 Cityscapes', otherwise PASCAL VOC's, which has any number."""
    if n_classes == len(CITYSCAPES):
        return color_table(kind.color for kind in CITYSCAPES)
    ids = torch.arange(n_classes)
    channels = []
    for first_bit in range(3):  # bits 0, 3, 6, ... of an id are red's bits 7, 6, 5, ...; then green's, then blue's
        bits = [((ids >> (3 * place + first_bit)) & 1) << (7 - place) for place in range(8)]
        channels.append(torch.stack(bits).sum(0))
    return torch.stack(channels, dim=1).to(torch.uint8)


def colorize(labels: Tensor, colors: Tensor) -> Tensor:
    """Return (1, H, W) class ids as (3, H, W) uint8 RGB by `colors`, (K, 3) uint8; ignored pixels (id K) are black."""
    table = torch.cat([colors, colors.new_zeros(1, 3)])
    return table[labels[0].long()].permute(2, 0, 1)


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
