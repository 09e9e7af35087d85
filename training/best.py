"""The best checkpoint so far, by a figure of the validation samples: checkpoint.best."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs import build
from configs.schema import Config
from configs.splits import TRAIN
from metrics import METRICS
from utils.checkpoint import CheckpointError, load_checkpoint, manifest_path
from utils.log import logger

BEST = "best.pt"


@dataclass
class BestScore:
    """The best score of a figure so far.

    figure: Name of the figure, or "none" if no best checkpoint is kept.
    value: Best score, None before the first. Higher is better.
    """

    figure: str
    value: float | None = None

    @property
    def is_kept(self) -> bool:
        """Whether best.pt is written."""
        return self.figure != "none"

    def improved_by(self, figures: Mapping[str, float]) -> float | None:
        """Return the score of new figures if it is better than `value`. If lower figures are better, negate the figure.

        Return None if it is not better, or if the figure is missing or not finite.
        """
        figure = figures.get(self.figure, math.nan)
        score = figure if self.figure not in METRICS or METRICS[self.figure].higher_is_better else -figure
        return score if math.isfinite(score) and (self.value is None or score > self.value) else None


@dataclass
class Patience(BestScore):
    """Ends a run whose validations no longer improve.

    A run ends at the same step no matter how often it was resumed. This score is therefore separate from the score of
    best.pt, which a killed run may have written after its last checkpoint.

    limit: The run ends after so many validations without improvement. None: it does not end.
    n_without: Number of validations since the best score.
    """

    limit: int | None = None
    n_without: int = 0

    def update(self, figures: Mapping[str, float]) -> None:
        """Record a validation."""
        reached = self.improved_by(figures)
        self.n_without = 0 if reached is not None or not self.is_kept else self.n_without + 1
        self.value = self.value if reached is None else reached

    @property
    def end_reason(self) -> str | None:
        """Why the run must end, or None if it continues."""
        if self.limit is None or self.n_without < self.limit:
            return None
        return f"{self.figure} has not improved for {self.n_without} validations, train.patience={self.limit}"


def best_figure(config: Config, split: str, progress: str, n_samples: int) -> str:
    """Return the figure that chooses the best checkpoint, or "none" if no best checkpoint is kept.

    split, n_samples: Split and number of the validation samples.
    progress: Figure that measures the progress of the training method.

    Raises:
        ConfigError: The samples do not have the figure that checkpoint.best names, or train.patience is set and no best
            checkpoint is kept.
    """
    best, facts, measured = config.checkpoint.best, build.data_facts(config), build.measured_metrics(config)
    has_weights = config.data.has_weight_maps or bool(facts.conditioning.class_weights)
    kinds = {"images": True, "weighted": has_weights, "values": not facts.conditioning.target_is_rgb}
    kinds |= {"weighted values": kinds["weighted"] and kinds["values"], "labels": bool(config.metrics.label_colors)}
    possible = [
        name
        for name, metric in METRICS.items()
        if kinds[metric.of] and metric.least_images <= n_samples and (not metric.is_optional or name in measured)
    ]
    others = "metrics.extra, metrics.label_colors, weights of pixels and more validation samples add others"
    expected = f"one that is measured: {', '.join(possible)}; {others}"
    config.require(best not in METRICS or best in possible, "checkpoint.best", expected)
    figure = best if best != "auto" else "none" if split == TRAIN else progress
    expected = f"null with checkpoint.best={best}"
    if best == "auto":
        expected = "null, because validation uses training samples. train.validation_share=0.05 holds samples back"
    config.require(config.train.patience is None or figure != "none", "train.patience", expected)
    return figure


def can_be_compared(figure: str, state: Mapping[str, Any], measured_on: Mapping[str, str]) -> bool:
    """Return whether a checkpoint's values of a figure were measured on the same samples, in the same way.

    measured_on: Digests of samples and protocol by figure.
    """
    return figure in measured_on and state.get("measured_on", {}).get(figure) == measured_on[figure]


def has_scores_of(figure: str, state: Mapping[str, Any], measured_on: Mapping[str, str]) -> bool:
    """Return whether the best score of a checkpoint can be compared with this run's scores of a figure.

    The checkpoint may have measured this figure only for the plateau schedule.
    """
    is_same, settings = can_be_compared(figure, state, measured_on), state.get("config", {}).get("checkpoint")
    return is_same and isinstance(settings, dict) and settings.get("best") in (figure, "auto")


def read_best(run_folder: Path) -> dict[str, Any]:
    """Return the content of best.pt without reading its weights. It is empty if the file is missing or unusable."""
    path = run_folder / BEST
    if not path.is_file():
        return {}
    try:
        return load_checkpoint(path, checks_content=False)
    except CheckpointError as error:
        logger.warning("%s is ignored: %s", path, error)
        return {}


def archive_best(run_folder: Path) -> None:
    """Rename best.pt if it was chosen with other samples or metrics, because it may still be wanted."""
    path, number = run_folder / BEST, 1
    if not path.is_file():
        return
    while (aside := path.with_name(f"best.{number}.pt")).exists():
        number += 1
    path.rename(aside)
    if manifest_path(path).is_file():
        manifest_path(path).rename(manifest_path(aside))
    logger.info("the %s that was there is kept as %s", BEST, aside.name)
