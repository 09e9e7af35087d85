"""The weights of the pixels of a batch: those of their maps, multiplied by those of their classes."""

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

_LARGEST = {torch.uint8: 255.0, torch.uint16: 65535.0}  # that counts as 1; other types hold the weights themselves


def stored_alike(weights: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """Return (1, H, W) maps of weights in one dtype: as they are stored, or as float32 where their files differ."""
    if len({of_sample.dtype for of_sample in weights if of_sample is not None}) < 2:
        return weights
    return [None if of_sample is None else weights_to_float(of_sample) for of_sample in weights]


def weights_to_float(weights: Tensor) -> Tensor:
    """Convert (…, 1, H, W) weights as they are stored to float32."""
    return weights.float() / _LARGEST.get(weights.dtype, 1.0)


def weights_of_classes(labels: Tensor, class_weights: Mapping[int, float], height: int, width: int) -> Tensor:
    """Return (N, 1, height, width) float32 weights of (N, 1, H, W) class ids.

    class_weights: by id; other classes weigh 1.
    """
    weights = torch.ones_like(labels, dtype=torch.float32)
    for class_id, weight in class_weights.items():  # numbers, not a table: its copy to a GPU would make the host wait
        weights.masked_fill_(labels == class_id, weight)
    if weights.shape[-2:] == (height, width):
        return weights
    return F.interpolate(weights, (height, width), mode="nearest-exact")
