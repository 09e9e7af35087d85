"""Layers that torch lacks, or that torch computes slowly or wrongly."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.device import at_least_float32


@dataclass(frozen=True)
class InTiles:
    """Facts about a layer for tiled inference. Layers of this project have them in the attribute `in_tiles`.

    reach: Largest distance, in input pixels, between an output pixel and the input pixels that affect it.
    stride: Input height divided by output height: 2 if the layer halves the height, 1/2 if it doubles the height.
    extent: `tile` computes the layer for each tile. `every_segment` computes a cheap layer again in each segment of the
        network, instead of storing its output. `left_out` skips the layer.
    """

    reach: int = 0
    stride: Fraction = Fraction(1)
    extent: Literal["tile", "every_segment", "left_out"] = "tile"


class Float32Buffers(nn.Module):
    """Base class of modules whose buffers stay in float32 or more if the network is cast.

    keeps_float32: True prevents utils.device from casting the buffers.
    """

    keeps_float32 = True

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move and cast the buffers with the network, but not below float32."""
        before = dict(self.named_buffers(recurse=False))
        super()._apply(fn, recurse)
        for name, kept in before.items():
            moved = getattr(self, name)
            if moved.dtype.itemsize < torch.float32.itemsize:
                setattr(self, name, kept.to(moved.device))
        return self


class ReflectionPadding(nn.ReflectionPad2d):
    """nn.ReflectionPad2d that is deterministic on a GPU if torch.use_deterministic_algorithms is set.

    On a GPU, torch's gradient uses atomic additions. Their order varies from run to run.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, C, H + 2 p, W + 2 p) for a padding of p pixels."""
        if x.is_cuda and torch.are_deterministic_algorithms_enabled():
            return reflect(x, self.padding[0])
        if x.device.type == "cpu" and is_channels_last(x):
            with torch.autocast("cpu", enabled=False):  # autocast would convert x to float32
                return super().forward(x)
        return padded(x, self.padding[0], "reflect")


def padded(x: Tensor, padding: int, mode: Literal["reflect", "replicate"]) -> Tensor:
    """Return x (N, C, H, W) with `padding` mirrored or repeated pixels on each side, in the memory layout of x.

    On a GPU, torch's padding keeps the channels-last layout only for 5-d tensors (volumes).
    """
    if not (x.is_cuda and is_channels_last(x)):
        return F.pad(x, (padding,) * 4, mode=mode)
    volumes = x.permute(0, 2, 3, 1).unsqueeze(1)
    return F.pad(volumes, (0, 0, *(padding,) * 4), mode=mode).squeeze(1).permute(0, 3, 1, 2)


def reflect(x: Tensor, padding: int) -> Tensor:
    """Return x (N, C, H, W) with `padding` mirrored pixels on each side. Border pixels are not repeated."""
    for dim in (-1, -2):
        before, after = x.narrow(dim, 1, padding), x.narrow(dim, x.shape[dim] - 1 - padding, padding)
        x = torch.cat([before.flip(dim), x, after.flip(dim)], dim=dim)
    return x


class InstanceNorm(nn.InstanceNorm2d):
    """nn.InstanceNorm2d without parameters or running statistics. It keeps the memory layout in training and on a GPU.

    torch's layer applies batch norm to a contiguous copy (1, N C, H, W). On a CPU, the gradient of a single image is
    then wrong if the incoming gradient is channels-last (torch 2.15). This class applies batch norm to each image.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each channel of each image of x, (N, C, H, W); H W is at least 2."""
        # exporters (on a CPU) and compilers need torch's layer, which also raises an error for a single pixel
        use_torch = not self.training and (x.device.type == "cpu" or torch.compiler.is_compiling())
        if use_torch or x.shape[2:].numel() == 1:
            return super().forward(x)
        # cat copies even a single image on a CPU, because an in-place ReLU on a view would be slow
        if is_channels_last(x) and (len(x) > 1 or x.device.type == "cpu"):
            return torch.cat([self._normalized(image) for image in x.split(1)])
        if x.shape[0] > 1:
            return F.instance_norm(x.flatten(2), eps=self.eps).view(x.shape)
        return self._normalized(x)

    def _normalized(self, image: Tensor) -> Tensor:
        if image.device.type == "cpu":
            image = _of_plain_strides(image)
            return _of_plain_strides(F.batch_norm(image, None, None, training=True, eps=self.eps))
        return F.batch_norm(image, None, None, training=True, eps=self.eps)


def is_channels_last(images: Tensor) -> bool:
    """Return whether images (N, C, H, W) are channels-last and not contiguous. One-channel images are contiguous."""
    return images.is_contiguous(memory_format=torch.channels_last) and not images.is_contiguous()


def _of_plain_strides(image: Tensor) -> Tensor:
    """Return a view of image (1, C, H, W) with the first stride of a new channels-last tensor.

    With another first stride, torch's batch norm on a CPU treats channels-last as contiguous (torch 2.15).
    """
    return image.permute(0, 2, 3, 1).squeeze(0).unsqueeze(0).permute(0, 3, 1, 2)


class AntialiasedDownsampling(nn.Module):
    """CUT's downsampling: a [1 2 1] blur along both axes with reflected borders, then every second pixel.

    Zhang 2019, "Making convolutional networks shift-invariant again".
    """

    in_tiles = InTiles(reach=1, stride=Fraction(2))

    def __init__(self) -> None:
        super().__init__()
        self.border = ReflectionPadding(1)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, C, H / 2, W / 2), rounded up; H and W are at least 2."""
        row = (2 - torch.arange(-1, 2, dtype=x.dtype, device=x.device).abs()) / 4  # arange avoids a host sync
        kernel = (row[:, None] * row).expand(x.shape[1], 1, 3, 3)
        if x.device.type != "cpu":
            return F.conv2d(self.border(x), kernel, stride=2, groups=x.shape[1])
        with torch.autocast("cpu", enabled=False):  # the gradient is ten times slower in bfloat16
            bordered = at_least_float32(self.border(x))
            return F.conv2d(bordered, kernel.to(bordered.dtype), stride=2, groups=x.shape[1]).to(x.dtype)


class UniformToZeros(nn.Module):
    """Layer that replaces single-colour images with zeros in evaluation mode.

    Reflection padding, a convolution and instance norm map every single-colour image to zeros. But if the colour is not
    zero, the norm amplifies rounding errors of the convolution to noise that differs between runtimes.
    """

    in_tiles = InTiles(extent="left_out")  # a single-colour tile can be part of an image with several colours

    def forward(self, images: Tensor) -> Tensor:
        """Return images (N, C, H, W) of the same dtype."""
        if self.training:
            return images
        varies = (images != images[..., :1, :1]).flatten(1).any(dim=1)
        return images * varies.view(-1, 1, 1, 1)


Border = Literal["reflect", "zeros"]


class UpsampledConv2d(nn.Conv2d):
    """Nearest-neighbour upsampling by 2, padding of one pixel, and a 3x3 convolution, merged into one operation.

    The merged operation is a transposed convolution with a 4x4 kernel. It needs 4 products for each output instead of
    9, and no enlarged image. The 4x4 kernel is a sum of shifted 3x3 kernels, so it causes no checkerboard
    artifacts. A learned 4x4 kernel would cause them (Odena et al. 2016).

    border: Padding of the enlarged image: mirrored pixels or zeros.
    """

    in_tiles = InTiles(reach=1, stride=Fraction(1, 2))

    def __init__(self, in_channels: int, out_channels: int, *, border: Border = "reflect", bias: bool = False) -> None:
        super().__init__(in_channels, out_channels, kernel_size=3, bias=bias)
        self.border = border

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, 2 H, 2 W)."""
        kernel = _merged(self.weight)
        if self.border == "zeros":
            return F.conv_transpose2d(x, kernel, self.bias, stride=2, padding=1)
        # mirroring the enlarged image is the same as repeating the border pixels of x
        bordered = padded(x, 1, "replicate")
        return F.conv_transpose2d(bordered, kernel, self.bias, stride=2, padding=3)


def _merged(kernel: Tensor) -> Tensor:
    """Mirror a kernel (out_channels, in_channels, 3, 3) for a transposed convolution, and convolve it with 2x2 ones.

    The result has shape (in_channels, out_channels, 4, 4).
    """
    per_axis = kernel.new_ones(4, 3).tril().triu(-1).flip(0)
    # one matrix product for both axes is faster than slicing or pooling many 3x3 images
    merged = kernel.flatten(2) @ torch.kron(per_axis, per_axis).T
    return merged.unflatten(2, (4, 4)).transpose(0, 1)


class PairConv2d(nn.Conv2d):
    """nn.Conv2d with zero padding, for the concatenated channels of a source and an image.

    The source has most of the channels (36 of 39 on Cityscapes) and needs no gradient. This layer convolves a source
    only once, and uses the result for the real and for the translated image.
    """

    def forward(self, source: Tensor | None, image: Tensor) -> Tensor:  # type: ignore[override]
        """Map sources (N, C, H, W) and images (k N, in_channels - C, H, W) to (k N, out_channels, H', W').

        Image i belongs to source i mod N. Without a source, C is 0.
        """
        if source is None:
            return super().forward(image)
        weight, n_channels = self.weight, source.shape[1]  # read the weight once: each access updates spectral norm
        of_source = F.conv2d(source, weight[:, :n_channels], self.bias, self.stride, self.padding)
        of_image = F.conv2d(image, weight[:, n_channels:], None, self.stride, self.padding)
        return (of_image.unflatten(0, (-1, len(source))) + of_source).flatten(0, 1)
