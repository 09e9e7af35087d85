"""Networks, by the names that a configuration uses."""

from models.global_generator import GlobalGenerator
from models.patch_discriminator import MultiscalePatchDiscriminator

GENERATORS = {"global": GlobalGenerator}
DISCRIMINATORS = {"multiscale_patch": MultiscalePatchDiscriminator}
