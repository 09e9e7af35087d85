"""Settings that have no effect beside others, so that nobody waits for what they promise."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from configs.build import data_facts
from configs.load import changed_settings
from configs.schema import Config, DiscriminatorConfig, GeneratorConfig
from configs.schema.data import DRAWN, OF_RGB_SOURCES
from data import LAYOUTS
from losses import ADVERSARIAL_LOSSES, GENERATOR_LOSSES, PENALTIES
from models import DISCRIMINATORS, GENERATORS
from utils.signatures import accepted, argument_names

_LAYOUTS = {name: layout.open for name, layout in LAYOUTS.items()}


def unused_settings(config: Config) -> list[str]:
    """Return `section.key=value` of every setting that has no effect, and differs from its default.

    Weights of losses that the method does not compute are listed at their defaults too, since recipes set them to 0.
    """
    unused = [*_unused_of_data(config), *_unused_of_networks(config.generator, config.discriminator)]
    makers = {name: term.make for name, term in GENERATOR_LOSSES.items()}
    not_computed = [*not_taken(makers, config.loss_weights), *not_taken(ADVERSARIAL_LOSSES, [config.loss.gan_mode])]
    classifies_pixels = ADVERSARIAL_LOSSES[config.loss.gan_mode].classifies_pixels
    not_computed += [name for name in config.penalties if PENALTIES[name].classifies_pixels != classifies_pixels]
    unused += [f"loss.{name}" for name in not_computed]
    if config.discriminator.name != "multiscale_patch" or config.discriminator.n_scales == 1:
        unused += ["loss.over_scales"]
    unused += [] if config.has_encoder else ["features.base_channels", "features.n_downsamplings"]
    unused += [] if config.features.n_channels else ["features.origin", "features.regions"]
    has_batch_norm = "batch" in (config.generator.norm, config.discriminator.norm)  # whose weights have the gain too
    unused += ["init.gain"] if config.init.distribution == "kaiming" and not has_batch_norm else []
    unused += [] if config.style.channels else ["style.size", "loss.kl_divergence"]
    unused += ["amp.dtype"] if config.amp.opt_level == "O0" else []
    unused += [] if config.train.validation_share else ["train.validation_group"]
    changed, weights = changed_settings(config), config.loss.weights_of_images
    listed = {key: changed[key] for key in unused if key in changed}
    listed |= {f"loss.{name}": weight for name, weight in weights.items() if weight and name not in config.loss_weights}
    return [f"{key}={value}" for key, value in listed.items()]


def not_taken(registry: Mapping[str, Callable[..., Any]], chosen: Iterable[str]) -> list[str]:
    """Return the arguments that other entries of a registry take, and the chosen ones do not."""
    taken = frozenset().union(*(argument_names(registry[name]) for name in chosen))
    known = frozenset().union(*(argument_names(maker) for maker in registry.values()))
    return sorted(known - taken)


def _unused_of_data(config: Config) -> list[str]:
    data, features = config.data, config.features
    unused = [f"data.{name}" for name in not_taken(_LAYOUTS, [data.layout])]
    needs_instances = data.instance_edges or (features.n_channels > 0 and features.regions == "instances")
    unused += ["data.instance_folder"] if not needs_instances or data.makes_instances else []
    unused += ["data.instances"] if not needs_instances or data.layout != "paired_folders" else []
    unused += ["data.ignore_id"] if data.n_classes == 0 or data.label_colors else []
    has_labels_alone = data.has_labels and not data.is_stacked
    unused += ["data.source_channels", "data.source_range"] if has_labels_alone else []
    unused += [f"data.augment.{name}" for name in OF_RGB_SOURCES] if has_labels_alone or data.is_stacked else []
    facts = data_facts(config)
    unused += [] if facts.target_files else ["data.target_files"]
    unused += ["data.augment.hue", "data.augment.jpeg_quality"] if "source" in facts.storage else []
    unused += ["data.on_bad_sample"] if data.layout in DRAWN else []
    unused += ["data.load_width"] if data.preprocess in ("crop", "none") else []
    unused += ["data.load_height"] if data.preprocess != "resize_and_crop" else []
    unused += ["data.crop_width", "data.crop_height"] if data.preprocess in ("scale_width", "none") else []
    return unused


def _unused_of_networks(generator: GeneratorConfig, discriminator: DiscriminatorConfig) -> list[str]:
    unused = [f"generator.{name}" for name in not_taken(GENERATORS, [generator.name])]
    unused += [f"discriminator.{name}" for name in not_taken(DISCRIMINATORS, [discriminator.name])]
    without_effect = GENERATORS[generator.name].without_effect
    unused += [f"generator.{name}" for name in without_effect(**accepted(without_effect, vars(generator)))]
    has_spectral_norm = generator.spectral_norm or discriminator.spectral_norm != "none"
    unused += [] if has_spectral_norm else ["generator.spectral_iteration"]
    return unused
