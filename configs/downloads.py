"""The published weights that a run would download, and the same run without what needs them."""

from dataclasses import replace

from configs.schema import Config
from losses.perceptual import VGG19
from metrics import METRICS
from metrics.metric import FeatureSource, PairMetric, SetMetric
from utils.pretrained import PretrainedFile


def downloads(config: Config) -> list[PretrainedFile]:
    """Return the files of weights that a run needs and that are not in torch's cache."""
    needed = [VGG19] if "vgg" in config.loss_weights else []
    needed += [file for name in config.metrics.extra if (file := _weights_of(name))]
    return [file for file in dict.fromkeys(needed) if not file.cached.is_file()]


def without_downloads(config: Config) -> Config:
    """Return the configuration without the losses and metrics whose weights would be downloaded."""
    missing = downloads(config)
    extra = [name for name in config.metrics.extra if _weights_of(name) not in missing]
    if VGG19 in missing:
        others = sum(weight for name, weight in config.loss.weights_of_images.items() if name != "vgg")
        config = replace(config, loss=replace(config.loss, vgg=0.0, l1=config.loss.l1 if others else 1.0))
    best = config.checkpoint.best
    is_measured = best not in config.metrics.extra or best in extra
    return replace(
        config,
        metrics=replace(config.metrics, extra=extra),
        checkpoint=config.checkpoint if is_measured else replace(config.checkpoint, best="none"),
    )


def _weights_of(metric: str) -> PretrainedFile | None:
    kind = METRICS[metric]
    source = kind.features if isinstance(kind, SetMetric) else kind
    return source.weights if isinstance(source, FeatureSource | PairMetric) else None
