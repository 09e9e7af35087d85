"""Settings of earlier versions, with their former defaults. Checkpoints and the config.yaml of a run hold them."""

from collections.abc import Mapping
from functools import cache

from utils.log import logger

REPLACED: dict[str, dict[str, object]] = {  # settings, by the setting that holds their values now, in this order
    "cycle.weights": {"cycle.weight_a": 10.0, "cycle.weight_b": 10.0},
    "data.elastic": {"data.augment.elastic": []},
    "data.quarter_turns": {"data.augment.quarter_turns": False},
    "data.rotation_degrees": {"data.augment.rotation_degrees": []},
    "data.zoom": {"data.augment.scale": []},
    "data.synthetic_samples": {
        "data.synthetic.train_samples": 1000,
        "data.synthetic.val_samples": 16,
        "data.synthetic.test_samples": 32,
    },
    "data.synthetic_size": {"data.synthetic.height": 128, "data.synthetic.width": 128},
    "optimizer.betas": {"optimizer.beta1": 0.5, "optimizer.beta2": 0.999},
    "style.size": {"style.height": 8, "style.width": 8},
}
REMOVED: dict[str, object] = {
    **{key: default for former in REPLACED.values() for key, default in former.items()},
    **dict.fromkeys(("augmentation.target", "init.encoder", "log.show_channels", "loss.vgg_weights"), None),
    **dict.fromkeys(("metrics.alexnet_weights", "metrics.inception_weights"), None),
    **{key: [] for key in ("data.instance_classes", "train.freeze_discriminator", "train.freeze_generator")},
    **{f"data.augment.{name}": [] for name in ("color", "hue", "jpeg_quality", "noise", "shear_degrees")},
    **dict.fromkeys(("discriminator.init", "generator.init"), "normal"),
    **dict.fromkeys(("discriminator.init_gain", "generator.init_gain"), 0.02),
    **dict.fromkeys(("log.gradient_norms", "log.histograms", "loss.vgg_imagenet_normalization"), False),
    "contrastive.all_negatives": False,
    "augmentation.probability": 1.0,
    "contrastive.taps": ["stem.0", "downs.0.0", "downs.1.0", "blocks.0", "blocks.4"],
    "loss.class_balance": True,
    "train.profile_steps": 0,
    "data.augment.vertical_flip": False,
    "data.cache_folder": "~/.cache/pairgan",
    "data.cache_gib": 16.0,
    "data.feature_folder": "{split}_feat",
    "data.prefetch": 2,
    "contrastive.temperature": 0.07,
    "data.test_split": "test",
    "data.shuffle": "full",
    "discriminator.downsample": "strided",
    "discriminator.max_channels": 512,
    "discriminator.spectral_iteration": "u_first",
    "generator.padding": "zeros",
    "log.n_images": 4,
    "optimizer.plateau_epochs": 5,
    "optimizer.step_epochs": 50,
    "optimizer.weight_decay": 0.0,
    "run.peer_timeout_s": 1800.0,
    "train.async_upload": True,
    "train.channels_last": "auto",
    "train.cudnn_benchmark": True,
}
FORMER_SECTIONS = ("data.augment", "data.synthetic")
_SUCCESSORS = {key: new for new, former in REPLACED.items() for key in former}
_report = cache(logger.info)  # a checkpoint's settings are read several times in a run


def with_successors(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings, by `section.key`, with the values of replaced settings under their new keys.

    A setting that replaces several needs all of them.
    """
    result = dict(settings)
    for new, former in REPLACED.items():
        values = [settings[key] for key in former if key in settings]
        if len(values) == len(former):
            result = {key: value for key, value in result.items() if key not in former}
            result[new] = values if len(values) > 1 else values[0]
    folder = result.pop("data.instance_folder", None)
    if folder is not None and result.get("data.instances", "files") == "files":
        result["data.instances"] = folder
    if (gain := result.pop("init.gain", None)) is not None and str(gain) != "0.02":
        result["init.distribution"] = f"{result.get('init.distribution', 'normal')}:{gain}"
    if result.get("discriminator.downsample") == result.get("generator.downsample"):
        result.pop("discriminator.downsample", None)
    if result.get("data.instances") == "connected" and result.get("data.instance_classes"):
        result["data.instances"] = result.pop("data.instance_classes")
    return result


def removed_fault(key: str, value: object) -> str | None:
    """Return what is wrong with a removed setting, None if it has its former default."""
    if str(value).lower() == str(REMOVED[key]).lower():  # YAML holds true and 1.0 as texts
        return None
    remedy = f"use {_SUCCESSORS[key]}" if key in _SUCCESSORS else "CHANGELOG.md names its successor"
    return f"{key} is no setting any more: {remedy}"


def without_removed(settings: Mapping[str, object], origin: str) -> dict[str, object]:
    """Return the settings of a checkpoint, by `section.key`, without the removed ones; report values not at a default.

    origin: Name of the checkpoint in the report.
    """
    for key, value in settings.items():
        if key in REMOVED and (fault := removed_fault(key, value)):
            _report(f"{origin}: {fault}")
    return {key: value for key, value in settings.items() if key not in REMOVED}
