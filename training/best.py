"""The score by which a checkpoint is the best so far: checkpoint.best, of the validation samples."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from configs.load import config_from_dict
from configs.schema import EXTRA_METRICS, Config, require
from metrics.evaluator import LOWER_IS_BETTER, OF_LABELS, OF_SETS
from utils.checkpoint import CheckpointError, load_checkpoint
from utils.errors import ConfigError
from utils.log import logger

BEST = "best.pt"


def check_best(config: Config, n_samples: int) -> None:
    """Raise ConfigError where checkpoint.best names a figure that `n_samples` validation samples will not have."""
    best, metrics = config.checkpoint.best, config.metrics
    if best in EXTRA_METRICS:
        require(best in metrics.extra, "checkpoint.best", best, f"one that is measured: metrics.extra=[{best}]")
    if best in OF_SETS:
        expected = "one of a single image: fid and kid need 2 validation samples, metrics.n_samples=2"
        require(n_samples > 1, "checkpoint.best", best, expected)
    if best in OF_LABELS:
        expected = "one that is measured: with metrics.label_colors"
        require(metrics.label_colors is not None, "checkpoint.best", best, expected)


def score(figures: Mapping[str, float], name: str) -> float | None:
    """Higher is better; None where `name` is "none", or label maps had no pixel that counts."""
    if not math.isfinite(figures.get(name, math.nan)):
        return None
    return -figures[name] if name in LOWER_IS_BETTER else figures[name]


def known_score(state: dict[str, Any], wanted: Config) -> float | None:
    """The best so far of a checkpoint, where it is of the figure that is asked for, and of as many samples."""
    saved = config_from_dict(state["config"], "checkpoint")
    before, now = ((config.checkpoint.best, config.n_validation_samples) for config in (saved, wanted))
    best = state.get("best")
    if best is None or before != now:
        return None
    return float(best)


def score_of_file(path: Path, wanted: Config) -> float | None:
    """The same of best.pt; None where there is none, or it cannot be used."""
    if not path.is_file():
        return None
    try:
        return known_score(load_checkpoint(path), wanted)
    except (CheckpointError, ConfigError, KeyError, TypeError, ValueError) as error:
        logger.warning("%s is left out of account: %s", path, error)
        return None
