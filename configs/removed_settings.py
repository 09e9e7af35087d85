"""Settings of earlier versions with their former defaults: checkpoints and the config.yaml of a run hold them."""

from collections.abc import Mapping
from functools import cache

from utils.log import logger

REMOVED: dict[str, object] = {
    **dict.fromkeys(("augmentation.target", "init.encoder", "log.show_channels", "loss.vgg_weights"), None),
    **dict.fromkeys(("metrics.alexnet_weights", "metrics.inception_weights"), None),
    **{key: [] for key in ("data.instance_classes", "train.freeze_discriminator", "train.freeze_generator")},
    **dict.fromkeys(("discriminator.init", "generator.init"), "normal"),
    **dict.fromkeys(("discriminator.init_gain", "generator.init_gain"), 0.02),
    **dict.fromkeys(("log.gradient_norms", "log.histograms", "loss.vgg_imagenet_normalization"), False),
    **dict.fromkeys(("style.height", "style.width"), 8),
    "augmentation.probability": 1.0,
    "data.cache_folder": "~/.cache/pairgan",
    "data.cache_gib": 16.0,
    "data.feature_folder": "{split}_feat",
    "data.prefetch": 2,
    "contrastive.temperature": 0.07,
    "data.shuffle": "full",
    "discriminator.max_channels": 512,
    "discriminator.spectral_iteration": "u_first",
    "log.n_images": 4,
    "optimizer.plateau_epochs": 5,
    "optimizer.step_epochs": 50,
    "optimizer.weight_decay": 0.0,
    "run.peer_timeout_s": 1800.0,
    "train.async_upload": True,
    "train.channels_last": "auto",
    "train.cudnn_benchmark": True,
}
_CONVERTED = ("style.height", "style.width", "data.instance_classes")
_report = cache(logger.info)  # a checkpoint's settings are read several times in a run


def removed_fault(key: str, value: object) -> str | None:
    """Return what is wrong with a removed setting, None if it has its former default."""
    is_default = str(value).lower() == str(REMOVED[key]).lower()  # YAML holds true and 1.0 as texts
    return None if is_default else f"{key} is no setting any more: CHANGELOG.md names its successor"


def without_removed(settings: Mapping[str, object], origin: str) -> dict[str, object]:
    """Return the settings of a checkpoint, by `section.key`, without the removed ones; report values not at a default.

    origin: Name of the checkpoint in the report.
    """
    kept = {key: value for key, value in settings.items() if key not in REMOVED}
    if "style.height" in settings and "style.width" in settings:  # the shapes of weights depend on them
        kept["style.size"] = [settings["style.height"], settings["style.width"]]
    if settings.get("data.instances") == "connected" and settings.get("data.instance_classes"):
        kept["data.instances"] = settings["data.instance_classes"]  # the inputs of the generator depend on them
    for key, value in settings.items():
        if key in REMOVED and key not in _CONVERTED and (fault := removed_fault(key, value)):
            _report(f"{origin}: {fault}")
    return kept
