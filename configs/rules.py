"""Rules between settings, from what the chosen layout, method, networks, losses and metrics declare."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from configs.build import data_facts
from configs.schema import Config, changed_settings, config_differences
from configs.schema.checks import require
from configs.schema.data import RGB_CHANNELS
from configs.schema.train import METHODS
from data import LAYOUTS
from losses import ADVERSARIAL_LOSSES, GENERATOR_LOSSES, PENALTIES
from metrics import METRICS
from models import DISCRIMINATORS, GENERATORS
from models.generator import Generator
from utils.signatures import accepted, argument_names
from utils.text import did_you_mean
from utils.yaml_file import shortened


def check_rules(config: Config) -> None:
    """Raise ConfigError if settings contradict each other, or a chosen part does not support them."""
    _check_layout(config)
    _check_networks(config)
    _check_method(config)
    _check_losses(config)
    _check_features(config)


def _check_layout(config: Config) -> None:
    data, layout = config.data, LAYOUTS[config.data.layout]
    require(layout.drawn or data.root != "", "data.root", "empty", "the folder of the data set: add data.root=FOLDER")
    chosen = f"with data.layout={data.layout}"
    if "source" not in layout.file_maps:
        for side in ("source", "target"):
            data.require(getattr(data, f"{side}_channels") in RGB_CHANNELS, f"{side}_channels", f"1 or 3 {chosen}")
            data.require(getattr(data, f"{side}_range") is None, f"{side}_range", f"null {chosen}")
    if "pair" in layout.file_maps:
        for key, usual in (("n_classes", 0), ("label_colors", {}), ("instance_edges", False)):
            data.require(getattr(data, key) == usual, key, f"{shortened(usual)} {chosen}: it holds RGB images")
        expected = f"1 {chosen}, whose halves have one size; use data.layout=paired_folders"
        config.require(config.generator.scale == 1, "generator.scale", expected)
    if layout.pairs and not layout.drawn and data.direction == "BtoA":
        data.require(not data.has_labels, "direction", "AtoB if data.n_classes or data.label_colors is set")
    expected = "a folder: sources are RGB images, unless data.n_classes or data.label_colors is set"
    data.require(not data.makes_instances or data.has_labels, "instances", expected)
    if data.is_stacked:
        _check_stack(config)


def _check_stack(config: Config) -> None:
    """Check the images of several source folders. The first one may hold label maps."""
    data, folders = config.data, config.data.source_folder
    require(len({*folders}) == len(folders), "data.source_folder", f"[{','.join(folders)}]", "each folder once")
    expected = "AtoB with several folders in data.source_folder: name those of B there, and A as data.target_folder"
    data.require(data.direction == "AtoB", "direction", expected)
    n_images = len(folders) - int(data.has_labels)
    expected = f"at least {n_images}: data.source_folder names {n_images} folders of images"
    data.require(data.source_channels >= n_images, "source_channels", expected)


def _check_networks(config: Config) -> None:
    registries: tuple[tuple[Any, Iterable[str], str], ...] = (
        (config.generator, GENERATORS, "register_generator"),
        (config.discriminator, DISCRIMINATORS, "register_discriminator"),
    )
    for section, names, register in registries:
        hint = did_you_mean(section.name, names) or f"one of your own is added by {register}, see docs/library.md"
        section.require(section.name in names, "name", f"one of {', '.join(names)}; {hint}")
    settings, generator = config.generator, GENERATORS[config.generator.name]
    chosen, taken = f"with generator.name={settings.name}", argument_names(generator)
    for name, expected in generator.unsupported(**accepted(generator.unsupported, vars(settings))).items():
        settings.require(False, name, f"{expected} {chosen}")
    settings.require(settings.scale == 1 or "scale" in taken, "scale", f"1 {chosen}")
    config.require(not config.style.channels or "style_channels" in taken, "style.channels", f"0 {chosen}")
    can_freeze = generator.has_coarse_parts or not config.train.freeze_global_epochs
    config.require(can_freeze, "train.freeze_global_epochs", f"0 {chosen}")


def _check_method(config: Config) -> None:
    name, method, data = config.method.name, config.method.declaration, config.data
    chosen = f"(method.name={name})"
    possible = [key for key, layout in LAYOUTS.items() if layout.pairs == method.pairs]
    others = " or ".join(key for key, other in METHODS.items() if other.pairs != method.pairs)
    expected = f"one of {', '.join(possible)} {chosen}, or method.name={others}"
    data.require(data.layout in possible, "layout", expected)
    unused = [*method.unused, *(other for other in METHODS if other != name)]
    for key, (usual, value) in config_differences(Config(), config).items():
        is_used = not any(key == setting or key.startswith(f"{setting}.") for setting in unused)
        require(is_used, key, value, f"{shortened(usual)}, its default {chosen}")
    for network, file in config.init.networks.items():
        known = ", ".join(method.networks)
        is_known = network in (*method.networks, "generator", "discriminator")
        require(is_known, f"init.{network}", file, f"null: method.name={name} trains {known}")
    if not method.pairs:
        _check_without_pairs(config, chosen)


def _compares_features(generator: type[Generator], config: Config) -> bool:
    return bool(generator.compared_layers(**accepted(generator.compared_layers, vars(config.generator))))


def _check_without_pairs(config: Config, chosen: str) -> None:
    method, data, loss = config.method.declaration, config.data, config.loss
    fitting = [
        name
        for name, generator in GENERATORS.items()
        if generator.translates == "images" and (not method.compares_features or _compares_features(generator, config))
    ]
    config.require(config.generator.name in fitting, "generator.name", f"one of {', '.join(fitting)} {chosen}")
    metrics = [name for name, metric in METRICS.items() if not metric.needs_pairs]
    are_possible = all(name in metrics for name in config.metrics.extra)
    config.require(are_possible, "metrics.extra", f"[] or some of {', '.join(metrics)} {chosen}: there is no target")
    expected = f"one of auto, none, {', '.join(metrics)} {chosen}: there is no target"
    config.require(config.checkpoint.best in ("auto", "none", *metrics), "checkpoint.best", expected)
    reason = "since the features of both are compared" if method.compares_features else ""
    reason = reason or ("or cycle.identity=0" if len(method.translators) > 1 and config.cycle.identity else "")
    if loss.outside_mask:
        are_ids = bool(loss.class_weights) and all(name.isdecimal() for name in loss.class_weights)
        expected = "the ids of the classes that loss.outside_mask lets change, such as {11: 0, 12: 0}"
        loss.require(are_ids, "class_weights", expected)
        layouts = [name for name, layout in LAYOUTS.items() if "labels" in layout.file_maps]
        data.require(data.layout in layouts, "layout", f"one of {', '.join(layouts)} with loss.outside_mask")
        reason = reason or "or loss.outside_mask=0"
    else:
        loss.require(not loss.class_weights, "class_weights", "{} without loss.outside_mask: there is no target")
    expected = f"{data.source_channels}, as data.source_channels, {reason}"
    data.require(not reason or data.target_channels == data.source_channels, "target_channels", expected)


def _check_losses(config: Config) -> None:
    loss, method, channels = config.loss, config.method.declaration, config.data.target_channels
    defaults, remedy = type(loss)(), "0, or loss.l1: pairs have targets" if method.pairs else "0: there is no target"
    for name, weight in loss.weights.items():
        is_usable = name in loss.weights_for(method.data, has_style=True) or weight in (0, getattr(defaults, name))
        loss.require(is_usable, name, f"{remedy} (method.name={config.method.name})")
    has_loss = any(loss.weights_of_images.values()) or not method.pairs
    require(has_loss, "loss", "all 0", "at least one loss weight above 0")
    terms = {name: GENERATOR_LOSSES[name] for name in config.loss_weights}
    penalties = {name: PENALTIES[name] for name in config.penalties}
    for name, term in terms.items():
        fits = term.channels is None or channels in term.channels
        loss.require(fits, name, f"0 with data.target_channels={channels}: its network sees 1 or 3 channels")
    for name, penalty in penalties.items():
        loss.require(method.pairs or not penalty.needs_pairs, name, f"{remedy} (method.name={config.method.name})")
        expected = f"O0 or O1 with loss.{name}, whose gradients need float32"
        is_exact = config.amp.opt_level in ("O0", "O1") or not penalty.needs_float32
        config.require(is_exact, "amp.opt_level", expected)
    if config.amp.opt_level == "O3":
        expected = "0 with amp.opt_level=O3: its weights are too coarse to average"
        config.require(config.train.ema_decay == 0, "train.ema_decay", expected)
    if channels not in RGB_CHANNELS:
        expected = f"with data.target_channels={channels}"
        config.require(not config.metrics.extra, "metrics.extra", f"[] {expected}: networks see 1 or 3 channels")
        is_rgb = config.metrics.label_colors is None
        config.require(is_rgb, "metrics.label_colors", f"null {expected}: label maps are drawn in colours")
    discriminator = DISCRIMINATORS[config.discriminator.name]
    chosen = f"with discriminator.name={config.discriminator.name}"
    fitting = [n for n, mode in ADVERSARIAL_LOSSES.items() if mode.classifies_pixels == discriminator.classifies_pixels]
    loss.require(loss.gan_mode in fitting, "gan_mode", f"one of {', '.join(fitting)} {chosen}")
    if discriminator.classifies_pixels:
        expected = f"above 0 {chosen}, which classifies pixels: it needs label maps"
        config.require(config.data.has_labels, "data.n_classes", expected)
        wrong = [name for name, term in terms.items() if term.needs_features]
        wrong += [name for name, penalty in penalties.items() if not penalty.classifies_pixels]
        for name in wrong:
            loss.require(False, name, f"0 {chosen}")
        is_possible = not loss.labelmix or config.train.pool_size == 0
        config.require(is_possible, "train.pool_size", "0 with loss.labelmix, which mixes images of a pair")


def _check_features(config: Config) -> None:
    """Check the appearance that the generator gets in addition to its source: instance features or a style."""
    if not config.features.n_channels:
        return
    maps = LAYOUTS[config.data.layout].file_maps
    chosen = f"with data.layout={config.data.layout}"
    config.require("pair" not in maps, "features.n_channels", f"0 {chosen}, without instances and labels")
    is_possible = config.features.origin == "encoded" or "features" in maps
    config.require(is_possible, "features.origin", f"encoded {chosen}")
    is_possible = config.data.has_labels or config.features.regions != "labels"
    config.require(is_possible, "features.regions", "instances if data.n_classes is 0")
    expected = "1 with features.n_channels, which are encoded at the size of the target"
    config.require(config.generator.scale == 1, "generator.scale", expected)
    expected = "0 with features.n_channels: a generator has only one of the two"
    config.require(config.style.channels == 0, "style.channels", expected)


def unused_settings(config: Config) -> list[str]:
    """Return `section.key=value` of every setting that has no effect, and differs from its default.

    Weights of losses that the method does not compute are listed at their defaults too, since recipes set them to 0.
    """
    changed, weights = changed_settings(config), config.loss.weights_of_images
    listed = {key: changed[key] for key in _unused(config) if key in changed}
    listed |= {f"loss.{name}": weight for name, weight in weights.items() if weight and name not in config.loss_weights}
    return [f"{key}={value}" for key, value in listed.items()]


def _unused(config: Config) -> Iterator[str]:
    """Yield the settings that the chosen parts do not take, and those without effect with the values of others."""
    data, features, generator = config.data, config.features, GENERATORS[config.generator.name]
    layouts = {name: layout.open for name, layout in LAYOUTS.items()}
    terms = {name: term.make for name, term in GENERATOR_LOSSES.items()}
    registries: tuple[tuple[str, Mapping[str, Callable[..., Any]], Iterable[str]], ...] = (
        ("data", layouts, [data.layout]),
        ("generator", GENERATORS, [config.generator.name]),
        ("discriminator", DISCRIMINATORS, [config.discriminator.name]),
        ("loss", terms, config.loss_weights),
        ("loss", ADVERSARIAL_LOSSES, [config.loss.gan_mode]),
    )
    for section, registry, chosen in registries:
        yield from (f"{section}.{name}" for name in not_taken(registry, chosen))
    without_effect = generator.without_effect
    yield from (f"generator.{n}" for n in without_effect(**accepted(without_effect, vars(config.generator))))
    classifies = ADVERSARIAL_LOSSES[config.loss.gan_mode].classifies_pixels
    yield from (f"loss.{name}" for name in config.penalties if PENALTIES[name].classifies_pixels != classifies)
    takes_scales = "n_scales" in argument_names(DISCRIMINATORS[config.discriminator.name])
    has_images = data.is_stacked or not data.has_labels
    facts = data_facts(config)
    has_spectral_norm = config.generator.spectral_norm or config.discriminator.spectral_norm != "none"
    needs_instances = data.instance_edges or (features.n_channels > 0 and features.regions == "instances")
    effects: tuple[tuple[bool, list[str]], ...] = (
        (takes_scales and config.discriminator.n_scales > 1, ["loss.over_scales"]),
        (has_spectral_norm, ["generator.spectral_iteration"]),
        (config.has_encoder, ["features.base_channels", "features.n_downsamplings"]),
        (features.n_channels > 0, ["features.origin", "features.regions"]),
        (config.style.channels > 0, ["style.size", "loss.kl_divergence"]),
        (config.amp.opt_level != "O0", ["amp.dtype"]),
        (config.train.validation_share > 0, ["train.validation_group"]),
        (needs_instances, ["data.instances"]),
        (data.n_classes > 0 and not data.label_colors, ["data.ignore_id"]),
        (has_images, ["data.source_channels", "data.source_range"]),
        (facts.target_files is not None, ["data.target_files"]),
        (data.preprocess not in ("crop", "none"), ["data.load_width"]),
        (data.preprocess == "resize_and_crop", ["data.load_height"]),
        (data.preprocess not in ("scale_width", "none"), ["data.crop_width", "data.crop_height"]),
    )
    for has_effect, keys in effects:
        yield from [] if has_effect else keys


def not_taken(registry: Mapping[str, Callable[..., Any]], chosen: Iterable[str]) -> list[str]:
    """Return the arguments that other entries of a registry take, and the chosen entries do not."""
    taken = frozenset().union(*(argument_names(registry[name]) for name in chosen))
    known = frozenset().union(*(argument_names(maker) for maker in registry.values()))
    return sorted(known - taken)
