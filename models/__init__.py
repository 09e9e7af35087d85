"""Networks, their parts and their initial weights. To add a network: its file here, its line in a registry.

The names are those of generator.name and discriminator.name. A network gets the settings of its section of the
configuration that its constructor has arguments for.
"""

from typing import Any, Protocol

from torch import nn

from models.global_generator import GlobalGenerator
from models.image_sides import ImageSides
from models.local_enhancer import LocalEnhancer
from models.patch_discriminator import MultiscalePatchDiscriminator
from models.pixel_discriminator import PixelDiscriminator
from models.unet_generator import UnetGenerator


class GeneratorClass(Protocol):
    """The class of a generator: translates (N, in_channels, H, W) into (N, out_channels, H, W) in [-1, 1]."""

    def __call__(self, *args: Any, **settings: Any) -> nn.Module:
        """Make a generator; every argument is named, `in_channels` and `out_channels` among them."""

    def image_sides(self, *args: Any, **settings: Any) -> ImageSides:
        """Return the sides that a generator of these settings takes; every argument is named."""


class DiscriminatorClass(Protocol):
    """The class of a discriminator: called with source and image, it returns a DiscriminatorOutput for each scale."""

    def __call__(self, *args: Any, **settings: Any) -> nn.Module:
        """Make a discriminator; every argument is named, `source_channels` and `image_channels` among them."""


GENERATORS: dict[str, GeneratorClass] = {
    "global": GlobalGenerator,
    "local": LocalEnhancer,
    "unet": UnetGenerator,
}
DISCRIMINATORS: dict[str, DiscriminatorClass] = {
    "multiscale_patch": MultiscalePatchDiscriminator,
    "pixel": PixelDiscriminator,
}
