"""Networks and their initial weights. To add a network, add a file to this package and a line to a registry below."""

import inspect
from collections.abc import Sequence
from typing import Any

from models.generator import Generator
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.patch_discriminator import Discriminator, MultiscalePatchDiscriminator, PixelDiscriminator
from models.projected_discriminator import ProjectedDiscriminator
from models.segmentation_discriminator import SegmentationDiscriminator
from models.spade_generator import SpadeGenerator
from models.unet_generator import UnetGenerator
from utils.errors import ConfigError
from utils.signatures import argument_names

# The keys are the values of the settings generator.name and discriminator.name. A constructor gets the numbers of
# channels, and each setting of its section that is one of its arguments.
GENERATORS: dict[str, type[Generator]] = {
    "global": GlobalGenerator,
    "local": LocalEnhancer,
    "unet": UnetGenerator,
    "spade": SpadeGenerator,
}
DISCRIMINATORS: dict[str, type[Discriminator]] = {
    "multiscale_patch": MultiscalePatchDiscriminator,
    "pixel": PixelDiscriminator,
    "projected": ProjectedDiscriminator,
    "segmentation": SegmentationDiscriminator,
}
BUILT_IN = {"generator": frozenset(GENERATORS), "discriminator": frozenset(DISCRIMINATORS)}
"""Names of the built-in networks, which programs cannot register again."""


def register_generator(name: str, generator: type[Generator]) -> None:
    """Register a generator class for `generator.name=NAME`, in training and in loaded checkpoints.

    The constructor gets each setting of section `generator` that is one of its arguments. If `name` is already
    registered, `generator` replaces the earlier class.

    Raises:
        ConfigError: `name` is not allowed, or the class is no Generator or lacks an argument or a static method.
    """
    _register(name, generator, GENERATORS, Generator, ("in_channels", "out_channels"), "image_sides")


def register_discriminator(name: str, discriminator: type[Discriminator]) -> None:
    """Register a discriminator class for `discriminator.name=NAME`, as `register_generator` does for generators.

    Raises:
        ConfigError: `name` is not allowed, or the class is no Discriminator or lacks an argument or a static method.
    """
    needed = ("source_channels", "image_channels")
    _register(name, discriminator, DISCRIMINATORS, Discriminator, needed, "least_side")


def _register(name: str, network: Any, registry: dict[str, Any], base: type, needed: Sequence[str], rule: str) -> None:
    kind = base.__name__.lower()
    if not name.isidentifier() or name in BUILT_IN[kind]:
        raise ConfigError(f"{kind} {name!r}: not an identifier, or a built-in network's name. Choose another name.")
    if not (isinstance(network, type) and issubclass(network, base)):
        raise ConfigError(
            f"{kind} {name!r}: {network!r} is not a class that derives from {base.__module__}.{base.__name__}."
        )
    if missing := [argument for argument in needed if argument not in argument_names(network)]:
        raise ConfigError(f"{kind} {name!r}: the constructor has no argument {missing[0]}. Add the argument.")
    if not isinstance(inspect.getattr_static(network, rule, None), staticmethod | classmethod):
        raise ConfigError(f"{kind} {name!r}: the class has no static method {rule}. See docs/architecture.md.")
    registry[name] = network
