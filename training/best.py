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

    figure: its name, or "none". value: higher is better; None before the first.
    """

    figure: str
    value: float | None = None

    @property
    def is_kept(self) -> bool:
        """Whether best.pt is written."""
        return self.figure != "none"

    def improved_by(self, figures: Mapping[str, float]) -> float | None:
        """Return the score of new figures where it is better than `value`, None otherwise.

        Its sign makes higher better. There is none where `figure` is "none", or label maps had no pixel that counts.
        """
        figure = figures.get(self.figure, math.nan)
        score = figure if self.figure not in METRICS or METRICS[self.figure].higher_is_better else -figure
        return score if math.isfinite(score) and (self.value is None or score > self.value) else None


@dataclass
class Patience:
    """Ends a run whose validations no longer improve, at the same one however often the run was resumed.

    best: of the validations that count; best.pt, which a killed run may have written later, is not looked at.
    limit: the number of validations without a better one that ends the run; None: it never ends so.
    """

    best: BestScore
    limit: int | None = None
    n_without: int = 0

    def update(self, figures: Mapping[str, float]) -> None:
        """Record a validation; none where no best is kept."""
        if not self.best.is_kept:
            return
        reached = self.best.improved_by(figures)
        self.n_without = self.n_without + 1 if reached is None else 0
        self.best.value = self.best.value if reached is None else reached

    @property
    def end_reason(self) -> str | None:
        """Why the run shall end; None where it goes on."""
        if self.limit is None or self.n_without < self.limit:
            return None
        return f"{self.best.figure} has not improved for {self.n_without} validations, train.patience={self.limit}"


def check_best(config: Config, n_samples: int) -> None:
    """Raise ConfigError where checkpoint.best names a figure that `n_samples` validation samples do not have."""
    best, conditioning = config.checkpoint.best, build.data_facts(config).conditioning
    if best not in METRICS:
        return
    metric = METRICS[best]
    is_measured = best in build.measured_metrics(config) or not metric.is_optional
    has_weights = config.data.has_weight_maps or bool(conditioning.class_weights)
    has_values, has_labels = not conditioning.target_is_rgb, config.metrics.label_colors is not None
    n, measured = metric.least_images, "one that is measured:"
    for is_possible, expected in (
        (is_measured, f"{measured} metrics.extra=[{best}]"),
        (n_samples >= n, f"one of a single image: {best} needs {n} validation samples, metrics.n_samples={n}"),
        (has_values or "values" not in metric.of, f"{measured} l1, since targets are 8-bit RGB"),
        (
            has_weights or not metric.weighs_pixels,
            f"{measured} set data.weight_folder, or loss.class_weights other than 1",
        ),
        (has_labels or metric.of != "labels", f"{measured} set metrics.label_colors"),
    ):
        config.require(is_possible, "checkpoint.best", expected)


def best_figure(config: Config, split: str, progress: str) -> str:
    """Return the figure by which the best is chosen, "none" where none is kept.

    split: that of the validation samples. progress: the figure by which the method measures it.

    Raises:
        ConfigError: train.patience waits for a best where none is kept.
    """
    best = config.checkpoint.best
    figure = best if best != "auto" else "none" if split == TRAIN else progress
    expected = f"null with checkpoint.best={best}"
    if best == "auto":
        expected = "null where the validation samples are trained on: train.validation_share=0.05 holds some back"
    config.require(config.train.patience is None or figure != "none", "train.patience", expected)
    return figure


def can_be_compared(figure: str, state: Mapping[str, Any], measured_on: Mapping[str, str]) -> bool:
    """Return whether values of a figure that a checkpoint holds were measured on the same as those of this run.

    measured_on: digests of what the run's figures are measured on, by figure. A checkpoint of a version that did not
        record them is not known to be of the same.
    """
    return figure in measured_on and state.get("measured_on", {}).get(figure) == measured_on[figure]


def has_scores_of(figure: str, state: Mapping[str, Any], measured_on: Mapping[str, str]) -> bool:
    """Return whether the scores that a checkpoint holds, if any, can be compared with those of this run.

    A checkpoint may record on what a figure is measured for the plateau alone; then its scores are of another one,
    unless it was chosen automatically: by the figure of the plateau.
    """
    is_same, settings = can_be_compared(figure, state, measured_on), state.get("config", {}).get("checkpoint")
    return is_same and isinstance(settings, dict) and settings.get("best") in (figure, "auto")


def read_best(run_folder: Path) -> dict[str, Any]:
    """Return the content of best.pt, its weights unread; nothing where there is no such file, or it cannot be used."""
    path = run_folder / BEST
    if not path.is_file():
        return {}
    try:
        return load_checkpoint(path, checks_content=False)  # its weights are not used
    except CheckpointError as error:
        logger.warning("%s is ignored: %s", path, error)
        return {}


def archive_best(run_folder: Path) -> None:
    """Rename best.pt before it is replaced: its score is of other samples or metrics, so it may still be wanted."""
    path, number = run_folder / BEST, 1
    if not path.is_file():
        return
    while (aside := path.with_name(f"best.{number}.pt")).exists():
        number += 1
    path.rename(aside)
    if manifest_path(path).is_file():
        manifest_path(path).rename(manifest_path(aside))
    logger.info("the %s that was there is kept as %s", BEST, aside.name)
