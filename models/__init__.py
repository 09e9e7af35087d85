"""Networks and their initial weights. A network is added with its file in this package and its line in a registry."""

from collections.abc import Callable
from typing import Any, Protocol

from torch import nn

from models.generator import ImageSides
from models.global_generator import GlobalGenerator
from models.local_enhancer import LocalEnhancer
from models.patch_discriminator import MultiscalePatchDiscriminator, PixelDiscriminator
from models.segmentation_discriminator import SegmentationDiscriminator
from models.spade_generator import SpadeGenerator
from models.unet_generator import UnetGenerator


class GeneratorClass(Protocol):
    """The class of a generator, whose arguments are named after the settings that it takes."""

    def __call__(self, *args: Any, **settings: Any) -> nn.Module:
        """Make a network that translates (N, in_channels, H, W) into (N, out_channels, scale * H, scale * W)."""

    def image_sides(self, *args: Any, **settings: Any) -> ImageSides:
        """Return the sides that a network with these settings takes."""


# The keys are the values of generator.name and discriminator.name. A network gets its section's settings and the
# numbers of channels, as far as its constructor has arguments of these names.
GENERATORS: dict[str, GeneratorClass] = {
    "global": GlobalGenerator,
    "local": LocalEnhancer,
    "unet": UnetGenerator,
    "spade": SpadeGenerator,
}
DISCRIMINATORS: dict[str, Callable[..., nn.Module]] = {  # (source, image) -> list[DiscriminatorOutput]
    "multiscale_patch": MultiscalePatchDiscriminator,
    "pixel": PixelDiscriminator,
    "segmentation": SegmentationDiscriminator,
}
