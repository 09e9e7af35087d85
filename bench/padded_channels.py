"""A trial for GPUs: convolutions whose numbers of channels are multiples of 8, which tensor cores want.

Weights and files keep their shapes. `bench.train_step --side "default, padded channels"` measures it. The networks do
not use it before a GPU has shown a gain of 3 %.
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor

_MULTIPLE = 8
_conv2d = F.conv2d


def conv2d(images: Tensor, weight: Tensor, bias: Tensor | None = None, *arguments: Any, **named: Any) -> Tensor:
    """Compute F.conv2d with channels of zeros, which are cut off from the result; see torch for the arguments."""
    if named.get("groups", 1) != 1 or len(arguments) > 3:  # a convolution in groups is not padded
        return _conv2d(images, weight, bias, *arguments, **named)
    before, after = -weight.shape[1] % _MULTIPLE, -weight.shape[0] % _MULTIPLE
    images = F.pad(images, (0, 0, 0, 0, 0, before)) if before else images
    weight_of_all = F.pad(weight, (0, 0, 0, 0, 0, before, 0, after)) if before or after else weight
    bias_of_all = F.pad(bias, (0, after)) if bias is not None and after else bias
    return _conv2d(images, weight_of_all, bias_of_all, *arguments, **named)[:, : len(weight)]


def use_padded_channels() -> None:
    """Let all convolutions of this process compute so."""
    F.conv2d = conv2d  # type: ignore[assignment]
