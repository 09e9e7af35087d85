"""The sizes of images that a configuration's networks take, and those that the user asked for."""

import math

from configs.schema import Config
from configs.schema.checks import require
from configs.schema.data import SIZED_BY_CROP
from models import DISCRIMINATORS, GENERATORS
from models.generator import ImageSides
from utils.errors import ConfigError
from utils.signatures import accepted, argument_names


def image_sides(config: Config) -> ImageSides:
    """Return the heights and widths that the generator takes, with its feature encoder if it has one."""
    generator = GENERATORS[config.generator.name]
    sides = generator.image_sides(**accepted(generator.image_sides, vars(config.generator)))
    if not config.has_encoder:
        return sides
    multiple = max(sides.multiple, 2**config.features.n_downsamplings)
    return ImageSides(multiple, multiple * (sides.minimum // sides.multiple))


def discriminated_side(config: Config) -> int:
    """Return the shortest side, in pixels, of an image that the discriminator takes."""
    discriminator = DISCRIMINATORS[config.discriminator.name]
    return discriminator.least_side(**accepted(discriminator.least_side, vars(config.discriminator)))


def check_discriminated(config: Config, name: str, side: int) -> None:
    """Raise ConfigError where the shorter side of the image `name` is below `discriminated_side`."""
    if side >= discriminated_side(config):
        return
    least_side = DISCRIMINATORS[config.discriminator.name].least_side
    (key,) = argument_names(least_side)
    value = getattr(config.discriminator, key)
    enough = max((lower for lower in range(value) if least_side(**{key: lower}) <= side), default=0)
    raise ConfigError(
        f"discriminator.{key} is {value}, but the shorter side of {name} has {side} pixels, enough for {enough}: "
        "lower it"
    )


def check_sizes(config: Config) -> None:
    """Raise ConfigError where the user asked for a size that the generator does not take."""
    sides, data = image_sides(config), config.data
    sizes: dict[str, int] = {}
    if data.preprocess in SIZED_BY_CROP:
        sizes = {"crop_width": data.crop_width, "crop_height": data.crop_height}
    elif data.preprocess == "scale_width":
        sizes = {"load_width": data.load_width}
    _check_reduction(config)
    for key, size in sizes.items():
        nearest = max(sides.minimum, round(size / sides.multiple) * sides.multiple)
        expected = (
            f"a multiple of {sides.multiple}, at least {sides.minimum}, for this generator; for instance {nearest}"
        )
        require(size % sides.multiple == 0 and size >= sides.minimum, f"data.{key}", size, expected)


def _check_reduction(config: Config) -> None:
    """Raise ConfigError where a side of a reduced target would not be a whole number."""
    data, multiple = config.data, math.ceil(1 / config.generator.scale)
    keys = {"resize_and_crop": ("load_width", "load_height"), "scale_width_and_crop": ("load_width",)}
    for key in keys.get(data.preprocess, ()):
        size = getattr(data, key)
        expected = f"a multiple of {multiple} with generator.scale={config.generator.scale:g}"
        require(size % multiple == 0, f"data.{key}", size, expected)
