"""What a .pt2 or .onnx file holds: a generator in one dtype, by itself or with the conversions before and behind it."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from data.batch import Batch
from data.conditioning import Conditioning, images_to_float, images_to_uint8
from models.feature_encoder import FeatureConditionedGenerator


@dataclass(frozen=True)
class Sides:
    """The heights and widths that a generator takes, in pixels: multiples of `multiple`, from `least` on."""

    multiple: int
    least: int

    def check(self, images: Tensor) -> None:
        """ValueError where (N, C, H, W) images have other sides; when it is traced, a guard of the program."""
        for side in images.shape[2:]:
            if side % self.multiple or side < self.least:
                raise ValueError(f"a side of {side} pixels, expected a multiple of {self.multiple}, from {self.least}")


class TensorTranslation(nn.Module):
    """The generator that computes in one dtype, between tensors in float32."""

    def __init__(self, generator: nn.Module, sides: Sides, dtype: torch.dtype) -> None:
        super().__init__()
        self.generator = generator.to(dtype)
        self.sides = sides
        self.dtype = dtype

    def forward(self, source: Tensor) -> Tensor:
        """(N, in_channels, H, W) float32 -> (N, out_channels, H, W) float32 in [-1, 1].

        source: one-hot labels or an image in [-1, 1]; then the instances' edges, then their features.
        """
        self.sides.check(source)
        return self.generator(source.to(self.dtype)).float()


class ImageTranslation(nn.Module):
    """The generator with one-hot labels, edges and ranges: what is read from files in, what is written to files out."""

    def __init__(self, tensors: TensorTranslation, conditioning: Conditioning) -> None:
        super().__init__()
        self.tensors = tensors
        self.conditioning = conditioning

    def forward(self, source: Tensor, instances: Tensor | None = None, features: Tensor | None = None) -> Tensor:
        """(N, 3, H, W) uint8 RGB images; grey ones have three equal channels.

        source: (N, 3, H, W) uint8 RGB images, or (N, 1, H, W) class ids, uint8 up to 255 classes, int32 from there on;
            an id that is no class is zero in every channel.
        instances: (N, 1, H, W) int32 ids, where the generator sees their edges.
        features: precomputed ones, (N, 3, H, W) uint8, or those that an encoder gave in training, (N, C, H, W) float32
            in [-1, 1].
        """
        self.tensors.sides.check(source)
        parts = [self.conditioning(Batch((), source, instances, None))]
        if features is not None:
            parts.append(images_to_float(features) if features.dtype == torch.uint8 else features)
        translated = images_to_uint8(self.tensors(torch.cat(parts, dim=1)))
        return translated.expand(-1, 3, -1, -1)


def plain_weights(generator: nn.Module) -> dict[str, Tensor]:
    """The state dict of the same generator without parametrizations: spectral norm has become part of the weights."""
    generator.eval()  # in training mode each look at a weight is a step of the power iteration
    weights = {name: value for name, value in generator.state_dict().items() if ".parametrizations." not in name}
    for name, module in generator.named_modules():
        if is_parametrized(module, "weight"):
            weights[f"{name}.weight"] = cast(Tensor, module.weight).detach()
    return weights


def without_encoder(generator: nn.Module) -> nn.Module:
    """The generator itself, whose features are an input."""
    return generator.generator if isinstance(generator, FeatureConditionedGenerator) else generator
