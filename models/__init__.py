"""Networks and their initial weights. A network is added with its file in this package and its line in a registry."""

from typing import Any, Protocol

from torch import nn

from models.generator import Generator
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.patch_discriminator import MultiscalePatchDiscriminator, PixelDiscriminator
from models.segmentation_discriminator import SegmentationDiscriminator
from models.spade_generator import SpadeGenerator
from models.unet_generator import UnetGenerator


class DiscriminatorClass(Protocol):
    """The class of a discriminator, whose arguments are named after the settings that it takes."""

    def __call__(self, *args: Any, **settings: Any) -> nn.Module:
        """Make a network of which (source, image) -> list[DiscriminatorOutput]."""

    def least_side(self, *args: Any, **settings: Any) -> int:
        """Return the shortest side of an image, in pixels, that a network with these settings sees something of.

        It has no more than one argument, the setting of which a lower value takes smaller images.
        """


# The keys are the values of generator.name and discriminator.name. A network gets its section's settings and the
# numbers of channels, as far as its constructor has arguments of these names.
GENERATORS: dict[str, type[Generator]] = {
    "global": GlobalGenerator,
    "local": LocalEnhancer,
    "unet": UnetGenerator,
    "spade": SpadeGenerator,
}
DISCRIMINATORS: dict[str, DiscriminatorClass] = {
    "multiscale_patch": MultiscalePatchDiscriminator,
    "pixel": PixelDiscriminator,
    "segmentation": SegmentationDiscriminator,
}
