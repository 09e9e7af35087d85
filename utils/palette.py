"""Colours of label maps as tensors: those of known data sets, and for any number of classes."""

from collections.abc import Iterable

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
