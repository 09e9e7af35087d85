"""Build the data, networks, losses and metrics that a configuration describes."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import nn

from configs.data_facts import (
    EIGHT_BITS,
    DataFacts,
    class_weights,
    divided_classes,
    images_of,
    named_classes,
    number_of_classes,
    storage_formats,
    target_files,
)
from configs.schema import Config, DataConfig
from configs.schema.data import SIZED_BY_CROP
from data.conditioning import Conditioning, ValueRange
from data.preprocessing import LeastSide, Preprocessing
from losses import ADVERSARIAL_LOSSES, GENERATOR_LOSSES, PENALTIES, REGISTERED_LOSSES
from losses.adversarial import AdversarialLoss
from losses.diffaugment import DiffAugment
from losses.objective import DiscriminatorObjective, GeneratorObjective
from metrics.evaluator import Evaluator
from metrics.image_metrics import Bounds
from models import DISCRIMINATORS, GENERATORS
from models.activation_checkpointing import enable_activation_checkpointing
from models.contract import check_discriminator, check_generator, check_on_meta_device, is_own
from models.generator import ImageSides
from models.initialization import initialize
from models.instance_features import FeatureConditionedGenerator, FeatureEncoder
from models.spectral_norm import add_spectral_norm, normed_convolutions
from models.style_encoder import StyleConditionedGenerator, StyleEncoder
from utils.device import allow_tf32, use_deterministic_algorithms
from utils.errors import ConfigError
from utils.machine import keep_freed_memory, usable_cores
from utils.signatures import accepted, argument_names, required_names
from utils.text import exact
from utils.torch_private import cpu_has_matrix_units

T = TypeVar("T")
_LABEL_IDS = 2**16  # number of 16-bit class ids, for the label maps of loss.outside_mask

# The settings of the final image size, and of the size before the crop, for each value of data.preprocess
_FINAL_SIZE = dict.fromkeys(SIZED_BY_CROP, ("crop_width", "crop_height")) | {"scale_width": ("load_width",)}
_SIZE_BEFORE_CROP = {"resize_and_crop": ("load_width", "load_height"), "scale_width_and_crop": ("load_width",)}


def data_facts(config: Config, direction: str | None = None) -> DataFacts:
    """Return facts about the images of a direction. If `direction` is None, use the method's default direction.

    Raises:
        ConfigError: the method has no such direction, or class settings contradict each other.
    """
    data, classes = config.data_of(direction), named_classes(config.data)
    n_classes, colors = number_of_classes(data, classes), data.colors
    ranges = {kind: ValueRange.of(bounds) for kind, _, _, bounds in images_of(data) if bounds is not None}
    color_of_no_class = colors.n_classes if colors and len(colors.rgb) > colors.n_classes else None
    n_weighed = _LABEL_IDS if config.loss.outside_mask else n_classes
    conditioning = Conditioning(
        n_classes=n_classes,
        instance_edges=data.instance_edges,
        source_channels=data.n_source_channels,
        target_channels=data.target_channels,
        source_range=ranges.get(data.source_images),
        target_range=ranges.get("target"),
        target_is_bounded=config.generator.output == "tanh",
        neighbours=data.neighbours,
        features=config.features.origin if config.features.n_channels else "none",
        regions=config.features.regions,
        encodes_style=config.style.channels > 0,
        edges_of="labels" if data.makes_instances else "instances",
        class_weights=class_weights(config.loss.class_weights, n_weighed, classes),
        source_image_channels=data.source_channels if data.source_images != "source" else 0,
        target_scale=config.generator.scale,
    )
    return DataFacts(
        n_classes=n_classes,
        classes=classes,
        ignored_id=color_of_no_class if colors else data.ignore_id,
        source_images=data.source_images,
        stack=data.source_folder[int(data.has_labels) :] if data.is_stacked else (),
        storage=storage_formats(data),
        ranges=ranges,
        target_files=target_files(data),
        file_colors=colors,
        divided_classes=divided_classes(data) if data.makes_instances else None,
        conditioning=conditioning,
    )


def prepare_device(config: Config, device: torch.device) -> None:
    """Choose the algorithms and the precision of a GPU. On a CPU, let each step reuse memory of the previous step."""
    torch.backends.cudnn.benchmark = not config.train.deterministic
    allow_tf32(config.amp.opt_level != "O0")
    use_deterministic_algorithms(config.train.deterministic)
    if device.type == "cpu":
        keep_freed_memory(gives_large_back=config.train.activation_checkpointing)


def memory_format(device: torch.device, on_cpu: torch.memory_format = torch.contiguous_format) -> torch.memory_format:
    """Return `on_cpu` on a CPU. On a GPU, return channels last, the format that suits its tensor cores."""
    return on_cpu if device.type == "cpu" else torch.channels_last


def image_sides(config: Config) -> ImageSides:
    """Return the heights and widths that the generator and its feature encoder, if any, accept."""
    generator = GENERATORS[config.generator.name]
    sides = _of_rule(generator.image_sides, vars(config.generator), ImageSides)
    if not config.has_encoder:
        return sides
    multiple = max(sides.multiple, 2**config.features.n_downsamplings)
    return ImageSides(multiple, multiple * (sides.minimum // sides.multiple))


def discriminator_settings(config: Config) -> dict[str, Any]:
    """Return the discriminator's settings, together with the generator's value of `downsample`, as in CUT."""
    takes_downsample = "downsample" in argument_names(GENERATORS[config.generator.name])
    downsample = config.generator.downsample if takes_downsample else "strided"
    return vars(config.discriminator) | {"downsample": downsample}


def discriminated_side(config: Config) -> int:
    """Return the least height and width of images for the discriminator, in pixels."""
    discriminator = DISCRIMINATORS[config.discriminator.name]
    return _of_rule(discriminator.least_side, discriminator_settings(config), int)


def _of_rule(rule: Callable[..., T], settings: Mapping[str, Any], kind: type[T]) -> T:
    """Call `rule`, a static method of a network, with `settings`. Raise ConfigError if the result has another type."""
    sides = _called(rule, settings)
    if not isinstance(sides, kind):
        raise ConfigError(f"{rule.__qualname__}: returns {sides!r}. Return an {kind.__name__} (docs/architecture.md).")
    return sides


def trained_side(config: Config) -> LeastSide:
    """Return the smallest source size whose targets are large enough for the discriminator and the losses."""
    rule = DISCRIMINATORS[config.discriminator.name].least_side
    settings = accepted(rule, vars(config.discriminator)) or {"name": config.discriminator.name}
    sides = [(discriminated_side(config), " ".join(f"discriminator.{key}={settings[key]}" for key in settings))]
    for name, weight in config.loss_weights.items():
        side = _called(GENERATOR_LOSSES[name].least_side, vars(config.loss))
        sides.append((side, f"loss.{name}={exact(weight)}"))
    sides.append((8 * config.loss.shift_reach, f"loss.shift_reach={config.loss.shift_reach}"))
    (pixels, reason), scale = max(sides), config.generator.scale
    return LeastSide(math.ceil(pixels / scale), f"{reason}{'' if scale == 1 else f' generator.scale={scale:g}'}")


def check_trained_sizes(config: Config) -> None:
    """Raise ConfigError if the settings choose an image size that is too small for training."""
    least = trained_side(config)
    expected = f"at least {least.pixels} with {least.reason}. Increase this size, or change these settings"
    for key in _FINAL_SIZE.get(config.data.preprocess, ()):
        config.data.require(getattr(config.data, key) >= least.pixels, key, expected)


def check_sizes(config: Config) -> None:
    """Raise ConfigError if the generator does not accept an image size from the settings."""
    sides, data, scale = image_sides(config), config.data, config.generator.scale
    multiple = math.ceil(1 / scale)  # a reduced target must have a whole number of pixels
    expected = f"a multiple of {multiple} with generator.scale={scale:g}"
    for key in _SIZE_BEFORE_CROP.get(data.preprocess, ()):
        data.require(getattr(data, key) % multiple == 0, key, expected)
    expected = f"a multiple of {sides.multiple}, at least {sides.minimum}, for this generator; for instance "
    for key in _FINAL_SIZE.get(data.preprocess, ()):
        size = getattr(data, key)
        nearest = max(sides.minimum, round(size / sides.multiple) * sides.multiple)
        data.require(size % sides.multiple == 0 and size >= sides.minimum, key, f"{expected}{nearest}")


def build_preprocessing(config: Config) -> Preprocessing:
    """Return the preprocessing that resizes and crops samples to sizes that the generator accepts.

    Raises:
        ConfigError: the generator does not accept an image size from the settings.
    """
    check_sizes(config)
    data, sides, augmentation = config.data, image_sides(config), None
    if data.quarter_turns or data.rotation_degrees or data.zoom or data.elastic:
        from data.pair_augmentation import PairAugmentation  # imports torchvision, which takes a second

        augmentation = PairAugmentation(data.rotation_degrees, data.zoom, data.elastic, data.quarter_turns)
    return Preprocessing(
        **accepted(Preprocessing, vars(data)),
        mode=data.preprocess,
        size_multiple=sides.multiple,
        min_size=sides.minimum,
        augmentation=augmentation,
        target_scale=config.generator.scale,
        least=trained_side(config),
    )


def count_workers(data: DataConfig, processes_per_machine: int) -> int:
    """Return the number of loader processes of each training process."""
    if isinstance(data.workers, int):
        return data.workers
    return max(1, min(8, usable_cores() // (2 * processes_per_machine)))


def build_generator(config: Config, direction: str | None = None) -> nn.Module:
    """Return the generator of a direction, together with its feature or style encoder if it has one.

    The initial weights are drawn from torch's global random generator.
    """
    settings, data = config.generator, config.data_of(direction)
    maker = GENERATORS[settings.name]
    conditioning = data_facts(config, direction).conditioning
    in_channels, n_stacked = conditioning.channels + config.features.n_channels, conditioning.source_image_channels
    height, width = config.style.size
    # CUT compares features before norms, so the convolutions before instance norm need biases
    is_biased = config.method.declaration.compares_features or "antialiased" in (settings.downsample, settings.upsample)
    values = vars(settings) | {
        "in_channels": in_channels,
        "out_channels": data.target_channels,
        "n_image_channels": n_stacked if conditioning.n_classes else data.n_source_channels,
        "n_label_channels": conditioning.n_classes if n_stacked else 0,
        "biased_downs": is_biased and settings.norm == "instance",
        "style_channels": config.style.channels,
        "style_height": height,
        "style_width": width,
    }
    make = partial(_called, maker, values)
    generator = make()
    if is_own(maker) and torch.get_default_device().type != "meta":
        key, side, scale = f"generator.name={settings.name}", image_sides(config).minimum, settings.scale
        check_on_meta_device(make, key)
        target = (data.target_channels, round(scale * side), round(scale * side))
        check_generator(generator, key, in_channels, target, side)
    as_spade, norm = maker.keeps_normed_weights, "all" if settings.spectral_norm else "none"
    _draw_weights(generator, config, norm, as_spade=as_spade)
    network: nn.Module = generator
    if config.has_encoder:
        values = vars(config.features) | {"n_features": config.features.n_channels, "norm": settings.norm}
        feature_encoder = _called(FeatureEncoder, values | {"in_channels": data.target_channels})
        _draw_weights(feature_encoder, config, "none", as_spade=False)
        network = FeatureConditionedGenerator(generator, feature_encoder)
    elif config.style.channels:
        style_encoder = _called(StyleEncoder, values | {"in_channels": data.target_channels})
        _draw_weights(style_encoder, config, norm, as_spade=as_spade)
        network = StyleConditionedGenerator(generator, style_encoder)
    if config.train.activation_checkpointing:
        enable_activation_checkpointing(network)
    return network


def build_discriminator(config: Config, direction: str | None = None) -> nn.Module:
    """Return the discriminator for the translations of a direction.

    The initial weights are drawn from torch's global random generator.
    """
    settings, data = config.discriminator, config.data_of(direction)
    maker = DISCRIMINATORS[settings.name]
    sees_source = config.method.declaration.pairs
    conditioning = data_facts(config, direction).conditioning
    source_channels = conditioning.channels if sees_source else 0
    channels = {"source_channels": source_channels, "image_channels": data.target_channels}
    values = discriminator_settings(config) | channels | {"n_classes": conditioning.n_classes}
    discriminator = _called(maker, values)
    if is_own(maker):
        key, side = f"discriminator.name={settings.name}", discriminated_side(config)
        shape, matches = (source_channels, data.target_channels, side), config.loss.feature_matching > 0
        check_discriminator(discriminator, key, *shape, needs_features=matches)
    norm, misses_normed = settings.spectral_norm, maker.keeps_normed_weights
    _draw_weights(discriminator, config, norm, as_spade=norm == "inner", misses_normed=misses_normed)
    return discriminator


def _called(function: Callable[..., T], values: Mapping[str, Any]) -> T:
    """Call `function` with those `values` that it accepts. Raise ConfigError if a required argument has no value."""
    if missing := sorted(required_names(function) - values.keys()):
        raise ConfigError(f"{function.__qualname__}: {missing[0]} is not a setting. Give this argument a default.")
    return function(**accepted(function, values))


def _draw_weights(network: nn.Module, config: Config, norm: str, *, as_spade: bool, misses_normed: bool = True) -> None:
    """Draw the initial weights of a network and add spectral norm, in place.

    as_spade: Whether xavier initialization follows SPADE. misses_normed: Whether, in this case, convolutions with
        spectral norm keep torch's default weights.
    """
    init = config.init
    as_spade = as_spade and init.kind == "xavier"
    unchanged = normed_convolutions(network, outer=False) if as_spade and misses_normed and norm != "none" else []
    # biases start at 0 in SPADE, CycleGAN and CUT
    zero_biases = as_spade or not config.method.declaration.pairs
    if not any(weight.is_meta for weight in network.parameters()):  # drawing meta weights would take long
        initialize(network, init.kind, init.gain, unchanged=unchanged, zero_biases=zero_biases)
    if norm != "none":
        add_spectral_norm(network, outer=norm == "all", iteration=config.generator.spectral_iteration)


def build_generator_objective(config: Config, device: torch.device) -> GeneratorObjective:
    """Return the generator's losses with a weight above 0, and registered losses. Move loss networks to `device`.

    Raises:
        WeightsError: the weights of a loss network are not available.
    """
    given = vars(config.loss) | vars(config.train) | {"adversarial_loss": build_adversarial_loss(config)}
    makers = {name: GENERATOR_LOSSES[name].make for name in config.loss_weights}
    losses = {name: (_called(make, given), config.loss_weights[name]) for name, make in makers.items()}
    losses |= REGISTERED_LOSSES
    # CPUs with matrix units (AMX) run networks without norms, such as VGG19, faster in channels last
    on_cpu = torch.channels_last if cpu_has_matrix_units() else torch.contiguous_format
    for loss, _ in losses.values():
        if isinstance(loss, nn.Module):
            loss.to(device).to(memory_format=memory_format(device, on_cpu))
    return GeneratorObjective(losses)


def build_adversarial_loss(config: Config) -> AdversarialLoss:
    """Return the adversarial loss for generator and discriminator."""
    return _called(ADVERSARIAL_LOSSES[config.loss.gan_mode], vars(config.loss))


def build_discriminator_objective(config: Config) -> DiscriminatorObjective:
    """Return the adversarial loss and the penalties of the discriminator."""
    loss = build_adversarial_loss(config)
    penalties = {name: (PENALTIES[name], weight) for name, weight in config.penalties.items()}
    suited = {name: pair for name, pair in penalties.items() if pair[0].classifies_pixels == loss.classifies_pixels}
    return DiscriminatorObjective(loss, suited)


def build_augmentation(config: Config) -> DiffAugment:
    """Return the augmentation of the discriminator's inputs.

    Raises:
        ConfigError: augmentation.policy has cutout, and the discriminator classifies pixels.
    """
    cuts_classes = (
        "cutout" in config.augmentation.policy and DISCRIMINATORS[config.discriminator.name].classifies_pixels
    )
    expected = f"no cutout with discriminator.name={config.discriminator.name}, because cut pixels have no class"
    config.require(not cuts_classes, "augmentation.policy", expected)
    return DiffAugment(tuple(config.augmentation.policy))


def measured_metrics(config: Config) -> list[str]:
    """Return the names of the optional metrics that the training method or metrics.extra adds."""
    return [*config.method.declaration.metrics, *config.metrics.extra]


def build_evaluator(config: Config, device: torch.device, n_images: int) -> Evaluator:
    """Return an evaluator for about `n_images` translated images. It includes the networks of its metrics.

    Raises:
        WeightsError: the weights of a network are not available.
        ConfigError: a package is missing, or the file of class colours is invalid.
    """
    settings, extra = config.metrics, measured_metrics(config)
    evaluator = Evaluator.load(extra, settings.label_colors, device, n_images, settings.features)
    return replace(evaluator, bounds=_bounds(config, config.data), shift_reach=config.measured_shift_reach)


def source_evaluator(config: Config, evaluator: Evaluator) -> Evaluator:
    """Return an evaluator for images of the source domain. It shares the networks of `evaluator`."""
    return replace(evaluator, bounds=_bounds(config, config.data.reversed))


def _bounds(config: Config, data: DataConfig) -> Bounds | None:
    """Return the target values that metrics map to 0 and 1. Return None for 8-bit RGB targets."""
    if "target" not in storage_formats(data):
        return None
    return Bounds.of(data.target_range or EIGHT_BITS, are_closed=config.generator.output == "tanh")
