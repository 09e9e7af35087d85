"""Colours of label maps."""

import torch
from torch import Tensor

# Label colours of Cityscapes (Cordts et al. 2016) for its ids 0 .. 34
_CITYSCAPES = (
    "000000 000000 000000 000000 000000 6f4a00 510051 804080 f423e8 faaaa0 e6968c 464646 66669c be9999 b4a5b4 "
    "966464 96785a 999999 999999 faaa1e dcdc00 6b8e23 98fb98 4682b4 dc143c ff0000 00008e 000046 003c64 00005a "
    "00006e 005064 0000e6 770b20 00008e"
)


def label_colors(n_classes: int) -> Tensor:
    """Return (K, 3) uint8 RGB: Cityscapes' colours for 35 classes, otherwise PASCAL VOC's, defined for any number."""
    if n_classes == 35:
        return torch.tensor([list(bytes.fromhex(color)) for color in _CITYSCAPES.split()], dtype=torch.uint8)
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
