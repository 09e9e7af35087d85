"""Networks and their initial weights. A network is added with its file in this package and its line in a registry."""

import inspect
from collections.abc import Sequence
from typing import Any

from models.generator import Generator
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.patch_discriminator import Discriminator, MultiscalePatchDiscriminator, PixelDiscriminator
from models.segmentation_discriminator import SegmentationDiscriminator
from models.spade_generator import SpadeGenerator
from models.unet_generator import UnetGenerator
from utils.errors import ConfigError
from utils.signatures import argument_names

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
BUILT_IN = {"generator": frozenset(GENERATORS), "discriminator": frozenset(DISCRIMINATORS)}
"""Names that programs cannot register for networks of their own, by kind."""


def register_generator(name: str, generator: type[Generator]) -> None:
    """Let `generator.name=NAME` choose a generator of the calling program, in trainings and in loaded checkpoints.

    Its constructor gets those settings of section `generator` that it has arguments for. The same name replaces an
    earlier registration.

    Raises:
        ConfigError: The name is not free, or the class is no Generator or lacks a part of it.
    """
    _register(name, generator, GENERATORS, Generator, ("in_channels", "out_channels"), "image_sides")


def register_discriminator(name: str, discriminator: type[Discriminator]) -> None:
    """Let `discriminator.name=NAME` choose a discriminator of the calling program, as `register_generator` does.

    Raises:
        ConfigError: The name is not free, or the class is no Discriminator or lacks a part of it.
    """
    needed = ("source_channels", "image_channels")
    _register(name, discriminator, DISCRIMINATORS, Discriminator, needed, "least_side")


def _register(name: str, network: Any, registry: dict[str, Any], base: type, needed: Sequence[str], rule: str) -> None:
    kind = base.__name__.lower()
    if not name.isidentifier() or name in BUILT_IN[kind]:
        raise ConfigError(f"{kind} {name!r}: not a word, or the name of a built-in network. Choose another word.")
    if not (isinstance(network, type) and issubclass(network, base)):
        raise ConfigError(
            f"{kind} {name!r}: {network!r} is not a class that derives from {base.__module__}.{base.__name__}."
        )
    if missing := [argument for argument in needed if argument not in argument_names(network)]:
        raise ConfigError(f"{kind} {name!r}: the constructor has no argument {missing[0]}. Add it.")
    if not isinstance(inspect.getattr_static(network, rule, None), staticmethod | classmethod):
        raise ConfigError(f"{kind} {name!r}: the class has no static method {rule}. Add it: docs/architecture.md.")
    registry[name] = network
