"""The published weights that a run would download, and the same run without what needs them."""

from dataclasses import replace

from configs.load import settings_by_key
from configs.schema import Config
from losses.perceptual import VGG19
from metrics import METRICS
from metrics.fid import INCEPTION
from metrics.lpips import ALEXNET
from metrics.metric import PairMetric, SetMetric
from utils.pretrained import PretrainedFile

PRETRAINED = {file.setting: file for file in (VGG19, ALEXNET, INCEPTION)}
"""The published files of weights by the settings that name other files in their place."""


def downloads(config: Config) -> list[PretrainedFile]:
    """Return the files of weights that a run needs and that are not in torch's cache."""
    needed = [VGG19.setting] if config.loss.vgg else []
    needed += [setting for name in config.metrics.extra if (setting := weights_setting(name))]
    given = settings_by_key(config)
    files = [PRETRAINED[setting] for setting in dict.fromkeys(needed) if given[setting] is None]
    return [file for file in files if not file.cached.is_file()]


def without_downloads(config: Config) -> Config:
    """Return the configuration without the losses and metrics whose weights would be downloaded."""
    missing = [file.setting for file in downloads(config)]
    extra = [name for name in config.metrics.extra if weights_setting(name) not in missing]
    if VGG19.setting in missing:
        others = sum(weight for name, weight in config.loss.weights_of_images.items() if name != "vgg")
        config = replace(config, loss=replace(config.loss, vgg=0.0, l1=config.loss.l1 if others else 1.0))
    best = config.checkpoint.best
    is_measured = best not in config.metrics.extra or best in extra
    return replace(
        config,
        metrics=replace(config.metrics, extra=extra),
        checkpoint=config.checkpoint if is_measured else replace(config.checkpoint, best="none"),
    )


def weights_setting(metric: str) -> str | None:
    """Return the setting of a metric's file of weights; None where it needs none."""
    kind = METRICS[metric]
    source = kind.features if isinstance(kind, SetMetric) else kind if isinstance(kind, PairMetric) else None
    return f"metrics.{source.weights}" if source and source.weights else None
