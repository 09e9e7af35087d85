"""A 3x3 convolution of an image that is first enlarged twice by repeating its pixels, without enlarging it."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Border = Literal["reflect", "zeros"]


class UpsampledConv2d(nn.Conv2d):
    """Nearest-neighbour upsampling by 2, a border of one pixel, and a 3x3 convolution, computed as one.

    Repeating pixels is a transposed convolution by a 2x2 kernel of ones. With the 3x3 kernel behind it, it is one by a
    4x4 kernel, which takes 4 products for each output instead of 9 and never makes the enlarged image. Unlike a free
    transposed convolution it leaves no checkerboard (Odena et al. 2016): its kernel is a sum of shifted 3x3 kernels.

    border: of the enlarged image: its pixels mirrored, or zeros.
    """

    def __init__(self, in_channels: int, out_channels: int, *, border: Border = "reflect", bias: bool = False) -> None:
        super().__init__(in_channels, out_channels, kernel_size=3, bias=bias)
        self.border = border

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, 2 H, 2 W)."""
        kernel = _merged(self.weight)
        if self.border == "zeros":
            return F.conv_transpose2d(x, kernel, self.bias, stride=2, padding=1)
        # of the enlarged image, the pixel mirrored at the border repeats the one at the border
        bordered = F.pad(x, (1, 1, 1, 1), mode="replicate")
        return F.conv_transpose2d(bordered, kernel, self.bias, stride=2, padding=3)


def _merged(kernel: Tensor) -> Tensor:
    """Return (in_channels, out_channels, 4, 4) of a (out_channels, in_channels, 3, 3) kernel.

    It is mirrored, as a transposed convolution wants it, and convolved with 2x2 ones.
    """
    along_a_side = kernel.new_ones(4, 3).tril().triu(-1).flip(0)
    # of both sides at once, since one matrix product is faster than slices or pooling of many 3x3 images
    merged = kernel.flatten(2) @ torch.kron(along_a_side, along_a_side).T
    return merged.unflatten(2, (4, 4)).transpose(0, 1)
