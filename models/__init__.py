"""Networks and their initial weights. A network is added with its file in this package and its line in a registry."""

from models.generator import Generator
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.patch_discriminator import Discriminator, MultiscalePatchDiscriminator, PixelDiscriminator
from models.segmentation_discriminator import SegmentationDiscriminator
from models.spade_generator import SpadeGenerator
from models.unet_generator import UnetGenerator

# The keys are the values of generator.name and discriminator.name. A network gets its section's settings and the
# numbers of channels, as far as its constructor has arguments of these names.
GENERATORS: dict[str, type[Generator]] = {
    "global": GlobalGenerator,
    "local": LocalEnhancer,
    "unet": UnetGenerator,
    "spade": SpadeGenerator,
}
DISCRIMINATORS: dict[str, type[Discriminator]] = {
    "multiscale_patch": MultiscalePatchDiscriminator,
    "pixel": PixelDiscriminator,
    "segmentation": SegmentationDiscriminator,
}
