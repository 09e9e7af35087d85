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
    """The best value of a figure so far.

    figure: Name of the figure; "none" if no best checkpoint is kept.
    value: Best score. Higher is better. None before the first.
    """

    figure: str
    value: float | None = None

    @property
    def is_kept(self) -> bool:
        """Whether best.pt is written."""
        return self.figure != "none"

    def improved_by(self, figures: Mapping[str, float]) -> float | None:
        """Return the score of new figures if it is better than `value`, otherwise None.

        The score is negative if lower figures are better. A figure that is missing or not finite has no score.
        """
        figure = figures.get(self.figure, math.nan)
        score = figure if self.figure not in METRICS or METRICS[self.figure].higher_is_better else -figure
        return score if math.isfinite(score) and (self.value is None or score > self.value) else None


@dataclass
class Patience(BestScore):
    """Ends a run whose validations no longer improve, at the same step no matter how often the run was resumed.

    Its `value` is separate from the score of best.pt, which a killed run may have written after its last checkpoint.

    limit: Number of validations without a better one that ends the run. None: never.
    n_without: Number of validations since the best one.
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
        """Why the run must end; None if it continues."""
        if self.limit is None or self.n_without < self.limit:
            return None
        return f"{self.figure} has not improved for {self.n_without} validations, train.patience={self.limit}"


def check_best(config: Config, n_samples: int) -> None:
    """Raise ConfigError if `n_samples` validation samples do not have the figure that checkpoint.best names."""
    best, facts = config.checkpoint.best, build.data_facts(config)
    has_weights = config.data.has_weight_maps or bool(facts.conditioning.class_weights)
    kinds = {"images": True, "weighted": has_weights, "values": not facts.conditioning.target_is_rgb}
    kinds |= {"weighted values": kinds["weighted"] and kinds["values"], "labels": bool(config.metrics.label_colors)}
    measured = build.measured_metrics(config)
    possible = [
        name
        for name, metric in METRICS.items()
        if kinds[metric.of] and metric.least_images <= n_samples and (not metric.is_optional or name in measured)
    ]
    others = "metrics.extra, metrics.label_colors, weights of pixels and more validation samples add others"
    expected = f"one that is measured: {', '.join(possible)}; {others}"
    config.require(best not in METRICS or best in possible, "checkpoint.best", expected)


def best_figure(config: Config, split: str, progress: str) -> str:
    """Return the figure that chooses the best checkpoint, "none" if no best checkpoint is kept.

    split: Name of the split of the validation samples.
    progress: Figure that measures the progress of the training method.

    Raises:
        ConfigError: train.patience is set, and no best checkpoint is kept.
    """
    best = config.checkpoint.best
    figure = best if best != "auto" else "none" if split == TRAIN else progress
    expected = f"null with checkpoint.best={best}"
    if best == "auto":
        expected = "null where the validation samples are trained on: train.validation_share=0.05 holds some back"
    config.require(config.train.patience is None or figure != "none", "train.patience", expected)
    return figure


def can_be_compared(figure: str, state: Mapping[str, Any], measured_on: Mapping[str, str]) -> bool:
    """Return whether a checkpoint's values of a figure were measured on the same samples, in the same way.

    measured_on: Digests of what the run's figures are measured on, by figure.
    """
    return figure in measured_on and state.get("measured_on", {}).get(figure) == measured_on[figure]


def has_scores_of(figure: str, state: Mapping[str, Any], measured_on: Mapping[str, str]) -> bool:
    """Return whether the best score of a checkpoint can be compared with the scores of this run.

    The digests may belong only to the plateau. The best score belongs to the figure if checkpoint.best names it, or
    selects the plateau's figure automatically.
    """
    is_same, settings = can_be_compared(figure, state, measured_on), state.get("config", {}).get("checkpoint")
    return is_same and isinstance(settings, dict) and settings.get("best") in (figure, "auto")


def read_best(run_folder: Path) -> dict[str, Any]:
    """Return the content of best.pt without reading its weights; empty if there is no such file or it is unusable."""
    path = run_folder / BEST
    if not path.is_file():
        return {}
    try:
        return load_checkpoint(path, checks_content=False)
    except CheckpointError as error:
        logger.warning("%s is ignored: %s", path, error)
        return {}


def archive_best(run_folder: Path) -> None:
    """Rename best.pt before it is replaced. It was chosen with other samples or metrics, and may still be wanted."""
    path, number = run_folder / BEST, 1
    if not path.is_file():
        return
    while (aside := path.with_name(f"best.{number}.pt")).exists():
        number += 1
    path.rename(aside)
    if manifest_path(path).is_file():
        manifest_path(path).rename(manifest_path(aside))
    logger.info("the %s that was there is kept as %s", BEST, aside.name)
