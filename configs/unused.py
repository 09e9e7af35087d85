"""Settings that have no effect beside others, so that nobody waits for what they promise."""

from dataclasses import fields

from configs.load import settings_by_key
from configs.schema import Config, DiscriminatorConfig, FeaturesConfig, GeneratorConfig

_ENHANCERS = ["generator.n_enhancers", "generator.n_enhancer_blocks"]
_UNUSED_BY_GENERATOR = {
    "global": _ENHANCERS,
    "local": ["generator.dropout"],
    "unet": [*_ENHANCERS, "generator.n_blocks", "generator.upsample", "generator.padding"],
}
_UNUSED_BY_DISCRIMINATOR = {
    "multiscale_patch": [],
    "pixel": [f"discriminator.{key}" for key in ("max_channels", "n_layers", "n_scales", "padding")],
}


def unused_settings(config: Config) -> list[str]:
    """`section.key=value` of every setting that was changed from its default and is not used."""
    unused = [*_unused_of_data(config), *_unused_of_networks(config.generator, config.discriminator)]
    if config.loss.vgg == 0:
        unused += [f"loss.vgg_{key}" for key in ("weights", "imagenet_normalization", "kept_gib")]
    if config.discriminator.name == "pixel" or config.discriminator.n_scales == 1:
        unused += ["loss.over_scales"]
    unused += _unused_of_features(config.features)
    unused += ["optimizer.step_epochs"] if config.optimizer.decay != "step" else []
    unused += ["optimizer.plateau_epochs"] if config.optimizer.decay != "plateau" else []
    unused += ["amp.dtype"] if config.amp.opt_level == "O0" else []
    values, defaults = settings_by_key(config), settings_by_key(Config())
    return [f"{key}={values[key]}" for key in dict.fromkeys(unused) if values[key] != defaults[key]]


def _unused_of_features(features: FeaturesConfig) -> list[str]:
    encoder = ["features.base_channels", "features.n_downsamplings"]
    if features.n_channels == 0:
        return ["features.origin", "features.regions", *encoder]
    return [] if features.origin == "encoded" else encoder


def _unused_of_data(config: Config) -> list[str]:
    data, features = config.data, config.features
    unused: list[str] = []
    if data.layout == "synthetic_facades":
        unused += ["data.root", "data.direction", "data.ignore_id"]
    else:
        unused += [f"data.synthetic.{field.name}" for field in fields(data.synthetic)]
    if data.layout != "paired_folders":
        unused += ["data.source_folder", "data.target_folder"]
    needs_instances = data.instance_edges or (features.n_channels > 0 and features.regions == "instances")
    if data.layout != "paired_folders" or not needs_instances:
        unused += ["data.instance_folder"]
    if features.n_channels == 0 or features.origin == "encoded":
        unused += ["data.feature_folder"]
    unused += ["data.ignore_id"] if data.n_classes == 0 else []
    unused += ["data.on_bad_sample"] if data.layout == "synthetic_facades" else []
    unused += ["data.timeout_s", "data.prefetch"] if data.workers == 0 else []
    unused += ["data.cache_gib"] if data.cache == "none" else []
    unused += ["data.cache_folder"] if data.cache != "disk" else []
    unused += ["data.source_channels"] if data.n_classes or data.layout == "synthetic_facades" else []
    unused += ["data.load_width"] if data.preprocess in ("crop", "none") else []
    unused += ["data.load_height"] if data.preprocess != "resize_and_crop" else []
    unused += ["data.crop_width", "data.crop_height"] if data.preprocess in ("scale_width", "none") else []
    return unused


def _unused_of_networks(generator: GeneratorConfig, discriminator: DiscriminatorConfig) -> list[str]:
    unused = [*_UNUSED_BY_GENERATOR[generator.name], *_UNUSED_BY_DISCRIMINATOR[discriminator.name]]
    if (generator.name, generator.n_downsamplings) == ("unet", 5) or (generator.name, generator.n_blocks) == (
        "global",
        0,
    ):
        unused += ["generator.dropout"]  # there is no layer for it
    if generator.init == "kaiming" and generator.norm == "instance":  # batch norm's weights are drawn with the gain too
        unused += ["generator.init_gain"]
    if discriminator.init == "kaiming" and discriminator.norm == "instance":
        unused += ["discriminator.init_gain"]
    return unused
