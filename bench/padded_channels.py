"""An experiment on GPUs: pad the channels of convolutions to multiples of 8, because these suit tensor cores.

The shapes of weights do not change. `bench.train_step --side "default, padded channels"` measures the speed. Only this
benchmark pads channels. The networks must not pad them unless a training step on a GPU becomes at least 3 % faster.
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor

_MULTIPLE = 8
_conv2d = F.conv2d


def conv2d(images: Tensor, weight: Tensor, bias: Tensor | None = None, *arguments: Any, **named: Any) -> Tensor:
    """Compute F.conv2d with additional channels of zeros. Return the result without the additional channels."""
    if named.get("groups", 1) != 1 or len(arguments) > 3:  # grouped convolutions are not padded
        return _conv2d(images, weight, bias, *arguments, **named)
    before, after = -weight.shape[1] % _MULTIPLE, -weight.shape[0] % _MULTIPLE
    images = F.pad(images, (0, 0, 0, 0, 0, before)) if before else images
    weight_of_all = F.pad(weight, (0, 0, 0, 0, 0, before, 0, after)) if before or after else weight
    bias_of_all = F.pad(bias, (0, after)) if bias is not None and after else bias
    return _conv2d(images, weight_of_all, bias_of_all, *arguments, **named)[:, : len(weight)]


def use_padded_channels() -> None:
    """Pad the channels of all convolutions in this process."""
    F.conv2d = conv2d  # type: ignore[assignment]
