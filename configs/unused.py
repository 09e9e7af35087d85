"""Settings that have no effect beside others, so that nobody waits for what they promise."""

from dataclasses import fields

from configs.load import settings_by_key
from configs.schema import Config

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
    data, generator, discriminator = config.data, config.generator, config.discriminator
    unused: list[str] = []
    if data.layout == "synthetic_facades":
        unused += ["data.root", "data.direction", "data.ignore_id"]
    else:
        unused += [f"data.synthetic.{field.name}" for field in fields(data.synthetic)]
    if data.layout != "paired_folders":
        unused += ["data.source_folder", "data.target_folder"]
    if data.layout != "paired_folders" or not data.instance_edges:
        unused += ["data.instance_folder"]
    if data.n_classes == 0:
        unused += ["data.ignore_id"]
    if data.preprocess in ("crop", "none"):
        unused += ["data.load_width"]
    if data.preprocess != "resize_and_crop":
        unused += ["data.load_height"]
    if data.preprocess in ("scale_width", "none"):
        unused += ["data.crop_width", "data.crop_height"]
    unused += _UNUSED_BY_GENERATOR[generator.name] + _UNUSED_BY_DISCRIMINATOR[discriminator.name]
    for section, network in (("generator", generator), ("discriminator", discriminator)):
        if network.init == "kaiming" and network.norm == "instance":  # batch norm's weights are drawn with the gain too
            unused += [f"{section}.init_gain"]
    unused += ["loss.vgg_weights", "loss.vgg_imagenet_normalization"] if config.loss.vgg == 0 else []
    unused += ["optimizer.step_epochs"] if config.optimizer.decay != "step" else []
    unused += ["amp.dtype"] if config.amp.opt_level == "O0" else []
    values, defaults = settings_by_key(config), settings_by_key(Config())
    return [f"{key}={values[key]}" for key in dict.fromkeys(unused) if values[key] != defaults[key]]
