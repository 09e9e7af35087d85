"""The module in a .pt2 or .onnx file: a generator in one dtype, alone or between conversions from and to images."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from data.batch import Batch
from data.conditioning import Conditioning, images_to_float
from models.generator import EncodedGenerator, ImageSides


class TensorProgram(nn.Module):
    """A generator that computes in one dtype, with inputs and outputs in float32."""

    def __init__(self, generator: nn.Module, sides: ImageSides, dtype: torch.dtype) -> None:
        super().__init__()
        self.generator = generator.to(dtype)
        self.sides = sides
        self.dtype = dtype

    def forward(self, source: Tensor) -> Tensor:
        """Return (N, out_channels, H, W) float32 in [-1, 1] for (N, in_channels, H, W) float32.

        source: channels of one-hot labels or an image in [-1, 1], then of instance edges, then of features.
        """
        self.sides.check(source)
        return self.generator(source.to(self.dtype)).float()


class ImageProgram(nn.Module):
    """A generator whose inputs and outputs are images as they lie in files.

    dtype: of its output, where targets are not 8-bit RGB.
    """

    def __init__(self, tensors: TensorProgram, conditioning: Conditioning, dtype: torch.dtype) -> None:
        super().__init__()
        self.tensors = tensors
        self.conditioning = conditioning
        self.dtype = dtype

    def forward(
        self,
        source: Tensor,
        instances: Tensor | None = None,
        features: Tensor | None = None,
        source_images: Tensor | None = None,
    ) -> Tensor:
        """Return (N, 3, H, W) uint8 RGB images, or (N, C, H, W) values in the targets' unit and type.

        source: (N, 3, H, W) uint8 RGB images, or (N, 1, H, W) class ids: uint8 for at most 255 classes, int32 for more;
            an id that is no class is zero in every channel. Or images that are not 8-bit RGB: (N, C, H, W) float32 in
            their unit if they have a range, otherwise uint8.
        instances: (N, 1, H, W) int32 ids, if the generator takes their edges.
        features: (N, 3, H, W) uint8 if they are precomputed, (N, C, H, W) float32 in [-1, 1] if an encoder made them.
        source_images: images beside class ids, in the forms of a source that is not 8-bit RGB.
        """
        self.tensors.sides.check(source)
        parts = [self.conditioning(Batch((), source, instances, None, source_images=source_images))]
        if features is not None:
            parts.append(images_to_float(features) if features.dtype == torch.uint8 else features)
        return self.conditioning.pixels(self.tensors(torch.cat(parts, dim=1)), self.dtype)


def plain_weights(generator: nn.Module) -> dict[str, Tensor]:
    """Return the generator's state dict without parametrizations: spectral norm is folded into the weights."""
    generator.eval()  # in training mode each read of a weight is a step of the power iteration
    weights = {name: value for name, value in generator.state_dict().items() if ".parametrizations." not in name}
    for name, module in generator.named_modules():
        if is_parametrized(module, "weight"):
            weights[f"{name}.weight"] = cast(Tensor, module.weight).detach()
    return weights


def without_encoder(generator: nn.Module) -> nn.Module:
    """Return the generator that takes features as an input, or whose style is a constant: 0, unless one is chosen."""
    return generator.generator if isinstance(generator, EncodedGenerator) else generator
