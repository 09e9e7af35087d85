"""The sizes of images that a configuration's networks take, and those that the user asked for."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from configs.schema import Config
from configs.schema.data import SIZED_BY_CROP
from data.preprocessing import LeastSide
from models import DISCRIMINATORS, GENERATORS
from models.generator import ImageSides
from utils.errors import ConfigError
from utils.signatures import accepted, required_names
from utils.text import exact

T = TypeVar("T")
VGG_MIN_SIDE = 16  # pixels, which four poolings make one

# settings of sizes, by data.preprocess
_TRANSLATED = dict.fromkeys(SIZED_BY_CROP, ("crop_width", "crop_height")) | {"scale_width": ("load_width",)}
_REDUCED = {"resize_and_crop": ("load_width", "load_height"), "scale_width_and_crop": ("load_width",)}


def image_sides(config: Config) -> ImageSides:
    """Return the heights and widths that the generator takes, with its feature encoder if it has one."""
    generator = GENERATORS[config.generator.name]
    sides = _of_rule(generator.image_sides, vars(config.generator), ImageSides)
    if not config.has_encoder:
        return sides
    multiple = max(sides.multiple, 2**config.features.n_downsamplings)
    return ImageSides(multiple, multiple * (sides.minimum // sides.multiple))


def discriminated_side(config: Config) -> int:
    """Return the shortest side, in pixels, of an image that the discriminator takes."""
    discriminator = DISCRIMINATORS[config.discriminator.name]
    return _of_rule(discriminator.least_side, vars(config.discriminator), int)


def _of_rule(rule: Callable[..., T], settings: Mapping[str, Any], kind: type[T]) -> T:
    """Return the sides for `settings` by a static method of a network; raise ConfigError if it breaks the contract."""
    if missing := sorted(required_names(rule) - settings.keys()):
        raise ConfigError(f"{rule.__qualname__}: {missing[0]} is no setting. Give this argument a default.")
    sides = rule(**accepted(rule, settings))
    if not isinstance(sides, kind):
        raise ConfigError(f"{rule.__qualname__}: returns {sides!r}. Return an {kind.__name__}: docs/architecture.md.")
    return sides


def trained_side(config: Config) -> LeastSide:
    """Return the shortest side of a source that can be trained on: the discriminator and VGG19 see its target."""
    rule = DISCRIMINATORS[config.discriminator.name].least_side
    settings = accepted(rule, vars(config.discriminator)) or {"name": config.discriminator.name}
    sides = [(discriminated_side(config), " ".join(f"discriminator.{key}={settings[key]}" for key in settings))]
    if "vgg" in config.loss_weights:
        sides.append((VGG_MIN_SIDE, f"loss.vgg={exact(config.loss.vgg)}"))
    (pixels, reason), scale = max(sides), config.generator.scale
    return LeastSide(math.ceil(pixels / scale), f"{reason}{'' if scale == 1 else f' generator.scale={scale:g}'}")


def check_trained_sizes(config: Config) -> None:
    """Raise ConfigError where the user asked for a size that cannot be trained on."""
    least = trained_side(config)
    expected = f"at least {least.pixels} with {least.reason}; enlarge it, or change these settings"
    for key in _TRANSLATED.get(config.data.preprocess, ()):
        config.data.require(getattr(config.data, key) >= least.pixels, key, expected)


def check_sizes(config: Config) -> None:
    """Raise ConfigError where the user asked for a size that the generator does not take."""
    sides, data, multiple = image_sides(config), config.data, math.ceil(1 / config.generator.scale)
    for key in _REDUCED.get(data.preprocess, ()):  # a side of a reduced target is a whole number
        expected = f"a multiple of {multiple} with generator.scale={config.generator.scale:g}"
        data.require(getattr(data, key) % multiple == 0, key, expected)
    for key in _TRANSLATED.get(data.preprocess, ()):
        size: int = getattr(data, key)
        nearest = max(sides.minimum, round(size / sides.multiple) * sides.multiple)
        expected = f"a multiple of {sides.multiple}, at least {sides.minimum}, for this generator; for instance "
        data.require(size % sides.multiple == 0 and size >= sides.minimum, key, f"{expected}{nearest}")
