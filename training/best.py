"""The best checkpoint so far, by a figure of the validation samples: checkpoint.best."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs import build
from configs.load import config_from_dict
from configs.schema import EXTRA_METRICS, Config, require
from metrics.evaluator import LOWER_IS_BETTER, OF_LABELS, OF_SETS, OF_VALUES, WEIGHTED
from utils.checkpoint import CheckpointError, load_checkpoint
from utils.errors import ConfigError
from utils.log import logger

BEST = "best.pt"


@dataclass
class BestScore:
    """The best value of a figure so far.

    figure: its name, or "none". value: higher is better; None before the first.
    """

    figure: str
    value: float | None = None

    def improved_by(self, figures: Mapping[str, float]) -> float | None:
        """Return the score of new figures where it is better than `value`, None otherwise."""
        reached = score(figures, self.figure)
        is_better = reached is not None and (self.value is None or reached > self.value)
        return reached if is_better else None


def score(figures: Mapping[str, float], name: str) -> float | None:
    """Return a figure with the sign that makes higher better.

    None where `name` is "none", or label maps had no pixel that counts.
    """
    if not math.isfinite(figures.get(name, math.nan)):
        return None
    return -figures[name] if name in LOWER_IS_BETTER else figures[name]


def check_best(config: Config, n_samples: int) -> None:
    """Raise ConfigError where checkpoint.best names a figure that `n_samples` validation samples do not have."""
    best, metrics = config.checkpoint.best, config.metrics
    if best in EXTRA_METRICS:
        require(best in metrics.extra, "checkpoint.best", best, f"one that is measured: metrics.extra=[{best}]")
    if best in OF_SETS:
        expected = "one of a single image: fid and kid need 2 validation samples, metrics.n_samples=2"
        require(n_samples > 1, "checkpoint.best", best, expected)
    if best in OF_VALUES:
        expected = "one that is measured: l1, where targets are 8-bit RGB"
        require(not build.build_conditioning(config).target_is_rgb, "checkpoint.best", best, expected)
    if best in WEIGHTED:
        expected = "one that is measured: with data.weight_folder or loss.class_weights other than 1"
        has_weights = config.data.has_weight_maps or bool(build.build_conditioning(config).class_weights)
        require(has_weights, "checkpoint.best", best, expected)
    if best in OF_LABELS:
        expected = "one that is measured: with metrics.label_colors"
        require(metrics.label_colors is not None, "checkpoint.best", best, expected)


def saved_score(state: Mapping[str, Any], wanted: Config) -> float | None:
    """Return the best score that a checkpoint holds, where it is of the wanted figure and of as many samples."""
    saved = config_from_dict(state["config"], "checkpoint")
    best = state.get("best")
    if best is None or _measured(saved) != _measured(wanted):
        return None
    return float(best)


def _measured(config: Config) -> tuple[object, ...]:
    """Return the figure of checkpoint.best with the settings by which its values compare."""
    best = config.checkpoint.best
    weights = (config.data.weight_folder, config.loss.class_weights) if best in WEIGHTED else ()
    return best, config.n_validation_samples, config.train.validation_share, *weights


def score_of_file(path: Path, wanted: Config) -> float | None:
    """Return the same of best.pt; None where there is no such file, or it cannot be used."""
    if not path.is_file():
        return None
    try:
        return saved_score(load_checkpoint(path), wanted)
    except (CheckpointError, ConfigError, KeyError, TypeError, ValueError) as error:
        logger.warning("%s is ignored: %s", path, error)
        return None
