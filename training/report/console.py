"""The lines of a run on the console and in log.txt, and the progress bar."""

import sys
from contextlib import ExitStack

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from metrics.segmentation import class_line
from training.diagnostics import Diagnostics
from training.report.report import Progress, Sink
from training.validation import ValidationReport
from utils.log import logger

_NOT_IN_LINES = ("learning_rate", "amp", "progress")  # sections of tags


class Console(Sink):
    """Logs a line for each report, with hints if the training is stuck, and shows a progress bar in a terminal."""

    place = "console"

    def __init__(self, total_steps: int, gan_mode: str) -> None:
        self._total_steps = total_steps
        self._diagnostics = Diagnostics(gan_mode)
        self._stack = ExitStack()

    def open(self, first_step: int) -> None:
        """Show the bar."""
        has_bar = sys.stderr.isatty()
        self._bar = self._stack.enter_context(
            tqdm(total=self._total_steps, initial=first_step - 1, unit="step", disable=not has_bar, leave=False)
        )
        if has_bar:  # lines go above the bar
            self._stack.enter_context(logging_redirect_tqdm([logger]))

    def end_step(self) -> None:
        """Move the bar."""
        self._bar.update()

    def progress(self, report: Progress) -> None:
        """Log the figures, and hints on them."""
        scalars = report.scalars
        images_per_s, n_skipped = (
            scalars["progress/images_per_s"],
            sum(int(value) for tag, value in scalars.items() if tag.startswith("amp/skipped_steps/")),
        )
        means = {tag: value for tag, value in scalars.items() if tag.partition("/")[0] not in _NOT_IN_LINES}
        terms = "  ".join(f"{_short(tag)} {value:.3f}" for tag, value in means.items())
        logger.info(
            f"step {report.step:>6}/{self._total_steps}  epoch {scalars['progress/epoch']:>3.0f}  "
            f"{images_per_s:6.1f} images/s  {scalars['progress/waiting_for_data']:4.0%} waiting for data  "
            f"{tqdm.format_interval(report.left_s)} left  {terms}{f'  skipped {n_skipped}' if n_skipped else ''}"
        )
        totals = {tag.split("/")[1]: f"{value:.3f}" for tag, value in means.items() if tag.endswith("/total")}
        skipped = {"skipped": n_skipped} if n_skipped else {}
        self._bar.set_postfix({**totals, "images/s": f"{images_per_s:.1f}", **skipped})
        _log_hints(self._diagnostics(scalars))

    def validation(self, step: int, report: ValidationReport) -> None:
        """Log the figures of the validation samples, and hints on the translations."""
        logits = report.scalars.get("logits/D/validation")
        seen = "" if logits is None else f"  {_short('logits/D/validation')} {logits:.3f}"
        logger.info("validation (%s)   %s%s", report.split, report.summary, seen)
        if report.summary.classes:
            logger.info("validation (%s)   IoU  %s", report.split, class_line(report.summary.classes))
        _log_hints(report.hints)

    def close(self) -> None:
        """Remove the bar."""
        self._stack.close()


def _log_hints(hints: list[str]) -> None:
    for hint in hints:
        logger.warning("hint: %s", hint)


def _short(tag: str) -> str:
    """Return a tag as lines have it: loss/G/l1 as G/l1, logits/D_A/real as D_A(real)."""
    section, _, name = tag.partition("/")
    if section == "logits":
        network, _, of_what = name.partition("/")
        return f"{network}({of_what})"
    return f"|g| {name}" if section == "gradient_norm" else name
