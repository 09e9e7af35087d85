"""The evaluators of translated images, with the metrics that the settings and the method want."""

from dataclasses import replace

import torch

from configs.directions import reversed_data
from configs.schema import Config, DataConfig
from configs.stored_images import EIGHT_BITS, stored_forms
from metrics.evaluator import Evaluator
from metrics.image_metrics import Bounds


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
