"""A convolution whose weights are larger than its images, with a faster gradient on CPUs."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDE_WEIGHTS = 2**23  # 1024 x 1024 x 3 x 3 has more; for smaller weights torch's own gradient is as fast


class WideConv2d(nn.Conv2d):
    """nn.Conv2d without padding, stride and bias, for the residual blocks at the lowest resolution.

    On a CPU the gradient of a weight of at least WIDE_WEIGHTS elements is computed as one matrix product. In bfloat16
    that is faster than torch's own gradient; in float32 it avoids torch's copies of the gradient in other layouts.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, H - k + 1, W - k + 1)."""
        if x.device.type != "cpu" or not torch.is_grad_enabled() or self.weight.numel() < WIDE_WEIGHTS:
            return super().forward(x)
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else self.weight.dtype
        with torch.autocast("cpu", enabled=False):
            result: Tensor = _Convolution.apply(x.to(dtype), self.weight.to(dtype))
        return result


class _Convolution(torch.autograd.Function):
    """A convolution with stride 1 and no padding, whose weight's gradient is one matrix product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.conv2d(x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        for_x = for_weight = None
        if ctx.needs_input_grad[0]:
            for_x = torch.ops.aten.convolution_backward(
                gradient, x, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, False, False]
            )[0]
        if ctx.needs_input_grad[1]:
            patches = F.unfold(x, weight.shape[2:]).transpose(0, 1).flatten(1)  # (C k k, N positions)
            outputs = gradient.transpose(0, 1).flatten(1)  # (out_channels, N positions)
            for_weight = (outputs @ patches.T).view_as(weight)
        return for_x, for_weight
