"""Check settings against each other and against the chosen layout, method, networks, losses and metrics."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from configs.build import data_facts
from configs.schema import Config, changed_settings, config_differences
from configs.schema.checks import require
from configs.schema.data import RGB_CHANNELS, TARGET_FILES, VOLUME_FILES
from configs.schema.train import METHODS
from data import LAYOUTS
from losses import ADVERSARIAL_LOSSES, GENERATOR_LOSSES, PENALTIES
from metrics import METRICS
from models import DISCRIMINATORS, GENERATORS
from utils.limits import MAX_CHANNELS, OF_VOLUME
from utils.signatures import accepted, argument_names
from utils.text import did_you_mean
from utils.yaml_file import shortened

Rule = tuple[object, str, str]
"""Whether the rule is met, the setting that the rule is about, and a text about the expected values."""


def check_rules(config: Config) -> None:
    """Raise ConfigError if settings contradict each other, or a chosen component does not support them."""
    for rules in (_layout_rules, _network_rules, _method_rules, _loss_rules, _feature_rules):
        for is_met, key, expected in rules(config):
            config.require(bool(is_met), key, expected)


def _layout_rules(config: Config) -> Iterator[Rule]:
    data, layout = config.data, LAYOUTS[config.data.layout]
    chosen = f"with data.layout={data.layout}"
    yield layout.drawn or data.root, "data.root", "the folder of the data set: add data.root=FOLDER"
    for side in ("source", "target") if "source" not in layout.file_maps else ():
        yield getattr(data, f"{side}_channels") in RGB_CHANNELS, f"data.{side}_channels", f"1 or 3 {chosen}"
        yield getattr(data, f"{side}_range") is None, f"data.{side}_range", f"null {chosen}"
    for key, (usual, _) in config_differences(Config(), config).items():
        value = f"{usual:g}" if isinstance(usual, float) else shortened(usual)
        yield key not in layout.unsupported, key, f"{value} {chosen}"
    files = VOLUME_FILES if layout.has_volumes else TARGET_FILES
    yield data.target_files in (None, *files), "data.target_files", f"one of {', '.join(files)} {chosen}"
    is_possible = layout.has_volumes or data.source_range != OF_VOLUME
    yield is_possible, "data.source_range", f"[low,high] {chosen}, which has no volumes"
    if layout.has_volumes:
        yield data.preprocess in ("crop", "none"), "data.preprocess", f"crop or none {chosen}, whose voxels have a size"
        n, key = len(data.source_folder) if data.is_stacked else 1, "data.source_channels"
        yield data.source_channels == n, key, f"{n}, a channel for each source volume"
        yield data.target_channels == 1, "data.target_channels", f"1 {chosen}"
        expected = f"fewer: sources have {data.n_source_channels} channels, and at most {MAX_CHANNELS} are supported"
        yield data.n_source_channels <= MAX_CHANNELS, "data.neighbours", expected
    is_possible = data.direction == "AtoB" or not data.has_labels or layout.drawn or not layout.pairs
    yield is_possible, "data.direction", "AtoB if data.n_classes or data.label_colors is set"
    expected = "a folder, because connected needs label maps (data.n_classes or data.label_colors)"
    yield data.has_labels or not data.makes_instances, "data.instances", expected
    if data.is_stacked:  # the first folder can hold label maps
        folders = data.source_folder
        require(len({*folders}) == len(folders), "data.source_folder", f"[{','.join(folders)}]", "each folder once")
        expected = "AtoB with several folders in data.source_folder. For BtoA, exchange source and target folders"
        yield data.direction == "AtoB", "data.direction", expected
        n_images = len(folders) - int(data.has_labels)
        expected = f"at least {n_images}: data.source_folder names {n_images} folders of images"
        yield data.source_channels >= n_images, "data.source_channels", expected


def _network_rules(config: Config) -> Iterator[Rule]:
    for key, names in (("generator", GENERATORS), ("discriminator", DISCRIMINATORS)):
        name = getattr(config, key).name
        hint = did_you_mean(name, names) or f"add your own with register_{key}, see docs/library.md"
        yield name in names, f"{key}.name", f"one of {', '.join(names)}; {hint}"
    settings, generator = config.generator, GENERATORS[config.generator.name]
    chosen, taken = f"with generator.name={settings.name}", argument_names(generator)
    for name, expected in generator.unsupported(**accepted(generator.unsupported, vars(settings))).items():
        yield False, f"generator.{name}", f"{expected} {chosen}"
    yield settings.scale == 1 or "scale" in taken, "generator.scale", f"1 {chosen}"
    yield not config.style.channels or "style_channels" in taken, "style.channels", f"0 {chosen}"
    fewest = round(-math.log2(settings.scale))
    expected = f"at least {fewest} with generator.scale={settings.scale:g}"
    yield settings.n_downsamplings >= fewest, "generator.n_downsamplings", expected
    can_freeze = generator.has_coarse_parts or not config.train.freeze_global_epochs
    yield can_freeze, "train.freeze_global_epochs", f"0 {chosen}"


def _method_rules(config: Config) -> Iterator[Rule]:
    name, method, data = config.method.name, config.method.declaration, config.data
    chosen = f"(method.name={name})"
    possible = [key for key, layout in LAYOUTS.items() if layout.pairs == method.pairs]
    others = " or ".join(key for key, other in METHODS.items() if other.pairs != method.pairs)
    yield data.layout in possible, "data.layout", f"one of {', '.join(possible)} {chosen}, or method.name={others}"
    unused = [*method.unused, *(other for other in METHODS if other != name)]
    for key, (usual, _) in config_differences(Config(), config).items():
        is_used = not any(key == setting or key.startswith(f"{setting}.") for setting in unused)
        yield is_used, key, f"{shortened(usual)}, because the method does not use this setting {chosen}"
    for network, file in config.init.networks.items():
        is_known = network in (*method.networks, "generator", "discriminator")
        require(is_known, f"init.{network}", file, f"null: method.name={name} trains {', '.join(method.networks)}")
    require(config.total_epochs > 0, "train.epochs + train.decay_epochs", 0, "at least 1 epoch")
    metrics = {key: metric for key, metric in METRICS.items() if method.pairs or not metric.needs_pairs}
    best = ["auto", "none", *(key for key, metric in metrics.items() if metric.higher_is_better is not None)]
    yield config.checkpoint.best in best, "checkpoint.best", f"one of {', '.join(best)} {chosen}"
    extra = [key for key, metric in metrics.items() if metric.is_optional]
    yield {*config.metrics.extra} <= {*extra}, "metrics.extra", f"a list of some of {', '.join(extra)} {chosen}"
    if not method.pairs:
        yield from _rules_without_pairs(config, chosen)


def _rules_without_pairs(config: Config, chosen: str) -> Iterator[Rule]:
    method, data, loss, fitting = config.method.declaration, config.data, config.loss, list[str]()
    for name, generator in GENERATORS.items():
        layers = generator.compared_layers(**accepted(generator.compared_layers, vars(config.generator)))
        if generator.translates == "images" and (layers or not method.compares_features):
            fitting.append(name)
    yield config.generator.name in fitting, "generator.name", f"one of {', '.join(fitting)} {chosen}"
    reason = "because features of sources and targets are compared" if method.compares_features else ""
    reason = reason or ("or cycle.identity=0" if len(method.translators) > 1 and config.cycle.identity else "")
    if loss.outside_mask:
        are_ids = loss.class_weights and all(name.isdecimal() for name in loss.class_weights)
        expected = "the ids of classes that may change, such as {11: 0, 12: 0} (loss.outside_mask)"
        yield are_ids, "loss.class_weights", expected
        layouts = [name for name, layout in LAYOUTS.items() if "labels" in layout.file_maps]
        yield data.layout in layouts, "data.layout", f"one of {', '.join(layouts)} with loss.outside_mask"
        reason = reason or "or loss.outside_mask=0"
    else:
        yield not loss.class_weights, "loss.class_weights", "{} without loss.outside_mask, because there is no target"
    expected = f"{data.source_channels}, the value of data.source_channels, {reason}"
    yield not reason or data.target_channels == data.source_channels, "data.target_channels", expected


def _loss_rules(config: Config) -> Iterator[Rule]:
    loss, method, channels = config.loss, config.method.declaration, config.data.target_channels
    chosen = f"(method.name={config.method.name})"
    defaults, remedy = type(loss)(), "0; use loss.l1 for pairs" if method.pairs else "0, because there is no target"
    for name, weight in loss.weights.items():
        is_usable = name in loss.weights_for(method.data, has_style=True) or weight in (0, getattr(defaults, name))
        yield is_usable, f"loss.{name}", f"{remedy} {chosen}"
    has_loss = any(loss.weights_of_images.values()) or not method.pairs
    require(has_loss, "loss", "all 0", "at least one loss weight above 0")
    terms = {name: GENERATOR_LOSSES[name] for name in config.loss_weights}
    penalties = {name: PENALTIES[name] for name in config.penalties}
    for name, term in terms.items():
        fits = term.channels is None or channels in term.channels
        yield fits, f"loss.{name}", f"0 with data.target_channels={channels}: this loss needs 1 or 3"
    for name, penalty in penalties.items():
        yield method.pairs or not penalty.needs_pairs, f"loss.{name}", f"{remedy} {chosen}"
        is_exact = config.amp.opt_level in ("O0", "O1") or not penalty.needs_float32
        yield is_exact, "amp.opt_level", f"O0 or O1 with loss.{name}, whose gradients need float32"
    can_average = config.amp.opt_level != "O3" or config.train.ema_decay == 0
    yield can_average, "train.ema_decay", "0 with amp.opt_level=O3, whose 16-bit weights are too coarse to average"
    if channels not in RGB_CHANNELS:
        chosen = f"with data.target_channels={channels}"
        yield not config.metrics.extra, "metrics.extra", f"[] {chosen}: metric networks need 1 or 3 channels"
        expected = f"null {chosen}: only images of 1 or 3 channels have label colours"
        yield config.metrics.label_colors is None, "metrics.label_colors", expected
    discriminator = DISCRIMINATORS[config.discriminator.name]
    chosen = f"with discriminator.name={config.discriminator.name}"
    for judged in {config.data_of(direction).target_channels for direction in method.translators}:
        allowed = discriminator.channels or (judged,)
        needs = f"needs images of {' or '.join(map(str, allowed))} channels, and the images have {judged}"
        yield judged in allowed, "discriminator.name", f"another name, because this network {needs}"
    fitting = [n for n, mode in ADVERSARIAL_LOSSES.items() if mode.classifies_pixels == discriminator.classifies_pixels]
    yield loss.gan_mode in fitting, "loss.gan_mode", f"one of {', '.join(fitting)} {chosen}"
    if discriminator.classifies_pixels:
        expected = f"above 0 {chosen}, which classifies pixels by label maps"
        yield config.data.has_labels, "data.n_classes", expected
        wrong = [name for name, term in terms.items() if term.needs_features]
        wrong += [name for name, penalty in penalties.items() if not penalty.classifies_pixels]
        wrong += ["shift_reach"] * (loss.shift_reach > 0)
        yield from ((False, f"loss.{name}", f"0 {chosen}") for name in wrong)
        is_possible = not loss.labelmix or config.train.pool_size == 0
        yield is_possible, "train.pool_size", "0 with loss.labelmix, which mixes images of a pair"


def _feature_rules(config: Config) -> Iterator[Rule]:
    """Yield the rules about instance features and styles, which are inputs of the generator like the source."""
    if config.features.n_channels:
        features, maps = config.features, LAYOUTS[config.data.layout].file_maps
        chosen = f"with data.layout={config.data.layout}"
        yield "pair" not in maps, "features.n_channels", f"0 {chosen}, which has no instance maps or label maps"
        yield features.origin == "encoded" or "features" in maps, "features.origin", f"encoded {chosen}"
        has_regions = config.data.has_labels or features.regions != "labels"
        yield has_regions, "features.regions", "instances if data.n_classes is 0"
        expected = "1 with features.n_channels, because features have the size of the target"
        yield config.generator.scale == 1, "generator.scale", expected
        expected = "0 with features.n_channels, because a generator cannot have features and a style"
        yield config.style.channels == 0, "style.channels", expected


def unused_settings(config: Config) -> list[str]:
    """Return `section.key=value` of every setting that has no effect and differs from its default.

    Losses that the method does not compute are also listed with their default weights, unless these weights are 0.
    """
    changed, weights = changed_settings(config), config.loss.weights_of_images
    listed = {key: changed[key] for key in _unused(config) if key in changed}
    listed |= {f"loss.{name}": weight for name, weight in weights.items() if weight and name not in config.loss_weights}
    return [f"{key}={value}" for key, value in listed.items()]


def _unused(config: Config) -> Iterator[str]:
    """Yield settings that the chosen components do not use, or that have no effect because of other settings."""
    data, features, generator = config.data, config.features, GENERATORS[config.generator.name]
    layouts = {name: layout.open for name, layout in LAYOUTS.items()}
    terms = {name: term.make for name, term in GENERATOR_LOSSES.items()}
    in_patterns = {"data.source_folder", "data.target_folder", "data.direction"} if data.has_volumes else set()
    yield from sorted({*_not_taken("data", layouts, [data.layout])} - in_patterns)
    yield from _not_taken("generator", GENERATORS, [config.generator.name])
    yield from _not_taken("discriminator", DISCRIMINATORS, [config.discriminator.name])
    yield from _not_taken("loss", terms, config.loss_weights)
    yield from _not_taken("loss", ADVERSARIAL_LOSSES, [config.loss.gan_mode])
    without_effect = generator.without_effect
    yield from (f"generator.{n}" for n in without_effect(**accepted(without_effect, vars(config.generator))))
    classifies = ADVERSARIAL_LOSSES[config.loss.gan_mode].classifies_pixels
    yield from (f"loss.{name}" for name in config.penalties if PENALTIES[name].classifies_pixels != classifies)
    discriminator = DISCRIMINATORS[config.discriminator.name]
    takes_scales = "n_scales" in argument_names(discriminator)
    n_outputs = config.discriminator.n_scales if takes_scales else discriminator.n_outputs
    has_images = data.is_stacked or not data.has_labels
    facts = data_facts(config)
    has_spectral_norm = config.generator.spectral_norm or config.discriminator.spectral_norm != "none"
    needs_instances = data.instance_edges or (features.n_channels > 0 and features.regions == "instances")
    effects: tuple[tuple[bool, list[str]], ...] = (
        (n_outputs != 1, ["loss.over_scales"]),
        (has_spectral_norm, ["generator.spectral_iteration"]),
        (config.has_encoder, ["features.base_channels", "features.n_downsamplings"]),
        (features.n_channels > 0, ["features.origin", "features.regions"]),
        (config.style.channels > 0, ["style.size", "loss.kl_divergence"]),
        (config.amp.opt_level != "O0", ["amp.dtype"]),
        (not {"fid", "kid"}.isdisjoint(config.metrics.extra), ["metrics.features"]),
        (config.loss.shift_reach > 0, ["loss.shift_patch", "loss.shift_penalty"]),
        (config.train.validation_share > 0, ["train.validation_group"]),
        (needs_instances, ["data.instances"]),
        (data.has_volumes, ["data.mask_folder", "data.axis", "data.neighbours"]),
        (data.n_classes > 0 and not data.label_colors, ["data.ignore_id"]),
        (has_images, ["data.source_channels", "data.source_range"]),
        (facts.target_files is not None, ["data.target_files"]),
        (data.preprocess not in ("crop", "none"), ["data.load_width"]),
        (data.preprocess == "resize_and_crop", ["data.load_height"]),
        (data.preprocess not in ("scale_width", "none"), ["data.crop_width", "data.crop_height"]),
    )
    for has_effect, keys in effects:
        yield from [] if has_effect else keys


def _not_taken(section: str, registry: Mapping[str, Callable[..., Any]], chosen: Iterable[str]) -> list[str]:
    """Return the settings of a section that some entries of `registry` accept, but no entry in `chosen` accepts."""
    taken = frozenset().union(*(argument_names(registry[name]) for name in chosen))
    known = frozenset().union(*(argument_names(maker) for maker in registry.values()))
    return sorted(f"{section}.{name}" for name in known - taken)
