"""From a configuration to its parts: the one place that turns settings into data, networks, losses and metrics."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from configs.directions import reversed_data, sides_of
from configs.image_sides import check_sizes, discriminated_side, image_sides, trained_side
from configs.label_maps import class_table, class_weights
from configs.schema import Config, DataConfig
from configs.stored_images import EIGHT_BITS, allowing_missing, stored_forms, value_ranges
from data import LAYOUTS, data_set_folder
from data.conditioning import Conditioning
from data.files.pixels import StoredForm
from data.layout import Layout
from data.map_reader import MapReader
from data.pair_augmentation import OF_RGB_SOURCES, PairAugmentation
from data.preprocessing import Preprocessing
from losses import GENERATOR_LOSSES, REGISTERED_LOSSES, registered_weights
from losses.adversarial import AdversarialLoss
from losses.diffaugment import DiffAugment
from losses.objective import DiscriminatorLosses, DiscriminatorObjective, GeneratorLoss, GeneratorObjective
from losses.segmentation import SegmentationLoss, SegmentationObjective
from metrics.evaluator import Evaluator
from metrics.image_metrics import Bounds
from models import DISCRIMINATORS, GENERATORS
from models.activation_checkpointing import enable_activation_checkpointing
from models.contract import check_discriminator, check_generator, check_on_meta_device, is_own
from models.initialization import initialize
from models.instance_features import FeatureConditionedGenerator, FeatureEncoder
from models.spectral_norm import add_spectral_norm, normed_convolutions
from models.style_encoder import StyleConditionedGenerator, StyleEncoder
from utils.device import use_deterministic_algorithms
from utils.errors import ConfigError
from utils.machine import keep_freed_memory, usable_cores
from utils.pictures import label_colors
from utils.precision import allow_tf32
from utils.signatures import accepted, argument_names, required_names
from utils.torch_private import cpu_has_matrix_units

Made = TypeVar("Made", bound=nn.Module)
_LABEL_IDS = 2**16  # of label maps beside sources that are images: as many as 16 bits hold


def number_of_classes(data: DataConfig) -> int:
    """Return the number of classes of the source; 0 where it is an RGB image.

    Raises:
        ConfigError: the data set brings classes of its own, and data.n_classes is another number.
    """
    table = class_table(data)
    if table is None:
        return data.n_classes
    if data.n_classes not in (0, table.n_classes):
        raise ConfigError(f"data.n_classes is {data.n_classes}, {data.layout} has {table.n_classes}: leave it out")
    return table.n_classes


def class_colors(data: DataConfig) -> Tensor:
    """Return (K, 3) uint8 colours in which label maps are displayed."""
    known = class_table(data)
    return label_colors(data.n_classes) if known is None else known.colors[: known.n_classes]


def reads_instances(config: Config) -> bool:
    """Return whether samples must have an instance map of a file of its own."""
    return build_conditioning(config).needs_instances and not config.data.makes_instances


def build_conditioning(config: Config, direction: str | None = None) -> Conditioning:
    """Return what the networks of a direction are conditioned on; None: the method's default direction.

    Raises:
        ConfigError: loss.class_weights names a class that there is not, or the method has no such direction.
    """
    data = sides_of(config, direction)
    ranges, n_classes, table = value_ranges(data), number_of_classes(data), class_table(data)
    n_weighed = _LABEL_IDS if config.loss.outside_mask else n_classes
    return Conditioning(
        n_classes=n_classes,
        instance_edges=data.instance_edges,
        source_channels=data.source_channels,
        target_channels=data.target_channels,
        source_range=ranges.get(data.source_images),
        target_range=ranges.get("target"),
        target_is_bounded=config.generator.output == "tanh",
        features=config.features.origin if config.features.n_channels else "none",
        regions=config.features.regions,
        encodes_style=config.style.channels > 0,
        edges_of="labels" if data.makes_instances else "instances",
        class_weights=class_weights(config.loss.class_weights, n_weighed, table.names if table else ()),
        source_image_channels=data.source_channels if data.source_images != "source" else 0,
        target_scale=config.generator.scale,
    )


def beyond_8_bit(data: DataConfig, conditioning: Conditioning) -> str | None:
    """Return what a generator takes or makes that no exported page and no video holds; None without such.

    A phrase for messages, such as `translates images that are not 8-bit RGB`.
    """
    if data.is_stacked:
        return "takes sources of several folders"
    return None if conditioning.is_8_bit else "translates images that are not 8-bit RGB"


def prepare_device(config: Config, device: torch.device) -> None:
    """Choose a GPU's algorithms and their precision; keep the memory that a step on a CPU frees for the next one."""
    torch.backends.cudnn.benchmark = config.train.cudnn_benchmark
    allow_tf32(config.amp.opt_level != "O0")
    use_deterministic_algorithms(config.train.deterministic)
    if device.type == "cpu":
        keep_freed_memory(gives_large_back=config.train.activation_checkpointing)


def memory_format(
    config: Config, device: torch.device, auto_on_cpu: torch.memory_format = torch.contiguous_format
) -> torch.memory_format:
    """Return the memory layout of the networks: channels last suits a GPU's tensor cores; a CPU has blocked layouts."""
    choice = config.train.channels_last
    if choice == "auto" and device.type == "cpu":
        return auto_on_cpu
    return torch.contiguous_format if choice == "never" else torch.channels_last


def has_split(data: DataConfig, split: str) -> bool:
    """Return whether the data set has the sources of a split."""
    has_split = LAYOUTS[data.layout].has_split
    return has_split(split, **_layout_arguments(has_split, data))


def build_layout(
    config: Config, split: str, *, needs_targets: bool, needs_labels: bool = False, allows_missing: bool = False
) -> Layout:
    """Return a split of the data set. Where targets are not needed, they are read if they exist.

    needs_labels: Whether label maps are read in addition to sources that are images.
    allows_missing: Whether sources may have pixels without data, which the caller fills.

    Raises:
        DataError: a folder is missing or empty, or a file has no partner.
    """
    conditioning = build_conditioning(config)
    forms = allowing_missing(stored_forms(config.data)) if allows_missing else stored_forms(config.data)
    facts = {
        "seed": config.run.seed,
        "needs_targets": needs_targets,
        "needs_instances": conditioning.needs_instances,
        "needs_features": conditioning.features == "precomputed",
        "needs_labels": needs_labels,
        "reader": build_map_reader(config, forms, needs_instances=conditioning.needs_instances),
        "target_scale": config.generator.scale,
    }
    layout = LAYOUTS[config.data.layout]
    return layout.open(split, **_layout_arguments(layout.open, config.data, **facts))


def build_map_reader(config: Config, forms: Mapping[str, StoredForm], *, needs_instances: bool) -> MapReader:
    """Return the reader of the maps of samples.

    forms: of images that are not 8-bit RGB. needs_instances: makes instances where the settings ask for that.
    """
    data = config.data
    return MapReader(
        n_classes=number_of_classes(data),
        ignore_id=data.ignore_id,
        forms=forms,
        colors=data.colors,
        divided_classes=data.divided_classes if needs_instances and data.makes_instances else None,
        target_scale=config.generator.scale,
    )


def _layout_arguments(function: Callable[..., Any], data: DataConfig, **facts: Any) -> dict[str, Any]:
    """Return the settings of sections `data` and `data.synthetic`, and the facts, that a layout's function takes."""
    values = vars(data) | vars(data.synthetic) | {"n_classes": number_of_classes(data), **facts}
    if "root" in argument_names(function):
        values["root"] = data_set_folder(data.root)
    return accepted(function, values)


def build_preprocessing(config: Config) -> Preprocessing:
    """Return how samples are cut to the sizes that the generator takes.

    Raises:
        ConfigError: the generator does not take a size that the settings ask for.
    """
    check_sizes(config)
    data, sides = config.data, image_sides(config)
    augment = vars(data.augment) | (dict.fromkeys(OF_RGB_SOURCES, ()) if data.is_stacked else {})
    return Preprocessing(
        mode=data.preprocess,
        load_height=data.load_height,
        load_width=data.load_width,
        crop_height=data.crop_height,
        crop_width=data.crop_width,
        flip=data.flip,
        size_multiple=sides.multiple,
        min_size=sides.minimum,
        augmentation=PairAugmentation(**augment),
        target_scale=config.generator.scale,
        least=trained_side(config),
    )


def count_workers(data: DataConfig, processes_per_machine: int) -> int:
    """Return the number of loader processes of each training process."""
    if isinstance(data.workers, int):
        return data.workers
    return max(1, min(8, usable_cores() // (2 * processes_per_machine)))


def build_generator(config: Config, direction: str | None = None) -> nn.Module:
    """Return the generator of a direction, with its encoder if it has one; see `build_conditioning`.

    Weights come from torch's global random generator.
    """
    settings, data = config.generator, sides_of(config, direction)
    maker = GENERATORS[settings.name]
    conditioning = build_conditioning(config, direction)
    in_channels = conditioning.channels + config.features.n_channels
    channels = {"in_channels": in_channels, "out_channels": data.target_channels}
    n_classes, n_further = conditioning.n_classes, conditioning.source_image_channels
    images = {"n_image_channels": n_further if n_classes else data.source_channels}
    images |= {"n_label_channels": n_classes if n_further else 0}
    height, width = config.style.size
    style = {"style_channels": config.style.channels, "style_height": height, "style_width": width}
    # features before a norm are compared, in CUT's networks at least: biases of the convolutions there count
    compares = config.method.declaration.compares_features or "antialiased" in (settings.downsample, settings.upsample)
    biases = {"biased_downs": compares and settings.norm == "instance"}
    values = vars(settings) | style | images | biases
    make = partial(_made, maker, channels | values, "generator.name")
    generator = make()
    if is_own(maker) and torch.get_default_device().type != "meta":
        key, side, scale = f"generator.name={settings.name}", image_sides(config).minimum, settings.scale
        check_on_meta_device(make, key)
        target = (data.target_channels, round(scale * side), round(scale * side))
        check_generator(generator, key, in_channels, target, side)
    is_spade, norm = settings.name == "spade", "all" if settings.spectral_norm else "none"
    _draw_weights(generator, config, norm, as_spade=is_spade)
    network: nn.Module = generator
    if config.has_encoder:
        network = FeatureConditionedGenerator(generator, _build_feature_encoder(config))
    elif config.style.channels:
        of_style = {"style_channels": config.style.channels, "base_channels": settings.base_channels}
        encoder = StyleEncoder(in_channels=data.target_channels, **of_style)
        _draw_weights(encoder, config, norm, as_spade=is_spade)
        network = StyleConditionedGenerator(generator, encoder)
    if config.train.activation_checkpointing:
        enable_activation_checkpointing(network)
    return network


def _build_feature_encoder(config: Config) -> FeatureEncoder:
    features = config.features
    encoder = FeatureEncoder(
        in_channels=config.data.target_channels,
        n_features=features.n_channels,
        base_channels=features.base_channels,
        n_downsamplings=features.n_downsamplings,
        norm=config.generator.norm,
    )
    _draw_weights(encoder, config, "none", as_spade=False)
    return encoder


def build_discriminator(config: Config, direction: str | None = None) -> nn.Module:
    """Return the discriminator of what a direction translates into; see `build_conditioning`.

    Weights come from torch's global random generator.
    """
    settings, data = config.discriminator, sides_of(config, direction)
    maker = DISCRIMINATORS[settings.name]
    sees_source = config.method.declaration.discriminates_pairs
    source_channels = build_conditioning(config, direction).channels if sees_source else 0
    channels = {"source_channels": source_channels, "image_channels": data.target_channels}
    values = vars(settings) | channels | {"n_classes": number_of_classes(data)}
    discriminator = _made(maker, values, "discriminator.name")
    if is_own(maker):
        key, side = f"discriminator.name={settings.name}", discriminated_side(config)
        needs_features = config.loss.feature_matching > 0
        check_discriminator(
            discriminator, key, source_channels, data.target_channels, side, needs_features=needs_features
        )
    is_oasis = settings.name == "segmentation"  # which draws weights before its network is moved
    norm = settings.spectral_norm
    _draw_weights(discriminator, config, norm, as_spade=norm == "inner", misses_normed=not is_oasis)
    return discriminator


def _made(maker: Callable[..., Made], values: Mapping[str, Any], key: str) -> Made:
    """Return a network with those of `values` that its constructor names; raise ConfigError if it needs others."""
    if missing := sorted(required_names(maker) - values.keys()):
        name = maker.__name__
        raise ConfigError(f"{key}: {name} needs {missing[0]}, which is no setting. Give this argument a default.")
    return maker(**accepted(maker, values))


def _draw_weights(network: nn.Module, config: Config, norm: str, *, as_spade: bool, misses_normed: bool = True) -> None:
    """Draw the initial weights and add spectral norm (none, inner, all), in place.

    SPADE draws them by xavier after it has moved the network to the GPU, and thereby misses the convolutions under
    spectral norm: they keep torch's, with which a step changes them by 2 % instead of half. Biases start at 0 there, as
    in CycleGAN and CUT.
    """
    init = config.init
    as_spade = as_spade and init.distribution == "xavier"
    unchanged = normed_convolutions(network, outer=False) if as_spade and misses_normed and norm != "none" else []
    zero_biases = as_spade or not config.method.declaration.discriminates_pairs
    initialize(network, init.distribution, init.gain, unchanged=unchanged, zero_biases=zero_biases)
    if norm != "none":
        add_spectral_norm(network, outer=norm == "all", iteration=config.generator.spectral_iteration)


def build_generator_objective(config: Config, device: torch.device) -> GeneratorObjective:
    """Return the generator's losses whose weight is not 0, and the registered ones; networks are on `device`.

    Raises:
        WeightsError: the weights of such a network are not available.
    """
    losses = {name: build_generator_loss(config, name) for name in config.loss_weights}
    losses |= {name: loss for name, (loss, _) in REGISTERED_LOSSES.items()}
    # of networks without norms, such as VGG19, where the CPU has matrix units (AMX)
    on_cpu = torch.channels_last if cpu_has_matrix_units() else torch.contiguous_format
    for loss in losses.values():
        if isinstance(loss, nn.Module):
            loss.to(device).to(memory_format=memory_format(config, device, on_cpu))
    return GeneratorObjective(losses, config.loss_weights | registered_weights())


def build_generator_loss(config: Config, name: str) -> GeneratorLoss:
    """Return one of GENERATOR_LOSSES; raises as `build_generator_objective`."""
    maker = GENERATOR_LOSSES[name]
    return maker(**accepted(maker, vars(config.loss) | vars(config.train)))


def build_discriminator_objective(config: Config) -> DiscriminatorLosses:
    """Return the discriminator's losses."""
    settings = config.loss
    if settings.gan_mode == "segmentation":
        return SegmentationObjective(SegmentationLoss(settings.class_balance), settings.labelmix)
    return DiscriminatorObjective(
        adversarial=AdversarialLoss(gan_mode=settings.gan_mode, over_scales=settings.over_scales),
        gradient_penalty=settings.gradient_penalty,
        r1=settings.r1,
    )


def build_augmentation(config: Config) -> DiffAugment:
    """Return the augmentation of what the discriminator sees.

    Raises:
        ConfigError: the discriminator would learn classes of pixels that are cut out.
    """
    settings = config.augmentation
    expected = "a list without cutout with discriminator.name=segmentation: cut pixels have no class"
    if "cutout" in settings.policy and config.discriminator.name == "segmentation":
        raise ConfigError(f"augmentation.policy is {settings.policy}, expected {expected}")
    return DiffAugment(tuple(settings.policy))


def measured_metrics(config: Config) -> list[str]:
    """Return the optional metrics that are computed: those of the method, and of metrics.extra."""
    return [*config.method.declaration.metrics, *config.metrics.extra]


def build_evaluator(config: Config, device: torch.device, n_images: int) -> Evaluator:
    """Return the evaluator of about `n_images` translated images, with the networks of its metrics.

    Raises:
        WeightsError: the weights of a network cannot be had.
        ConfigError: a package for it is missing, or the file of the classes' colours cannot be used.
    """
    evaluator = Evaluator.load(measured_metrics(config), config.metrics.label_colors, device, n_images)
    return replace(evaluator, bounds=_bounds(config, config.data))


def source_evaluator(config: Config, evaluator: Evaluator) -> Evaluator:
    """Return the evaluator of images of the source side, with the networks of that of the target side."""
    return replace(evaluator, bounds=_bounds(config, reversed_data(config.data)))


def _bounds(config: Config, data: DataConfig) -> Bounds | None:
    """Return the values of targets that count as 0 and 1; None where they are 8-bit RGB."""
    if "target" not in stored_forms(data):
        return None
    return Bounds.of(data.target_range or EIGHT_BITS, are_closed=config.generator.output == "tanh")
