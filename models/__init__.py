"""The networks."""

from torch import nn

from models.global_generator import GlobalGenerator
from models.local_enhancer import LocalEnhancer
from models.patch_discriminator import MultiscalePatchDiscriminator
from models.pixel_discriminator import PixelDiscriminator
from models.unet_generator import UnetGenerator

GENERATORS: dict[str, type[nn.Module]] = {
    "global": GlobalGenerator,
    "local": LocalEnhancer,
    "unet": UnetGenerator,
}
DISCRIMINATORS: dict[str, type[nn.Module]] = {
    "multiscale_patch": MultiscalePatchDiscriminator,
    "pixel": PixelDiscriminator,
}
