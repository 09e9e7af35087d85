"""What a run tells while it trains: lines of the log, a progress bar, metrics.jsonl, TensorBoard, hints."""

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from metrics.evaluator import Summary
from training.diagnostics import Diagnostics
from training.json_lines import JsonLines
from training.tensorboard import TensorBoardWriter
from training.validation import SamplePage
from utils.log import logger

METRICS_FILE = "metrics.jsonl"


@dataclass(frozen=True)
class Progress:
    """Where a run is. images_per_s: of all processes. waiting_share: of the time, for data. skipped_steps: left out."""

    step: int
    epoch: int
    images_per_s: float
    waiting_share: float
    left_s: float
    skipped_steps: int


class RunLog:
    """The log of one session of a run, from `first_step` to `total_steps`; in a process without folder it is silent."""

    def __init__(self, folder: Path | None, first_step: int, total_steps: int, gan_mode: str) -> None:
        self.board = TensorBoardWriter(folder, first_step)
        self._metrics = JsonLines(folder / METRICS_FILE, first_step) if folder else None
        self.page = SamplePage(folder / "web", first_step) if folder else None
        self._hints = Diagnostics(gan_mode)
        self._total_steps = total_steps
        has_bar = folder is not None and sys.stderr.isatty()
        self._bar = tqdm(total=total_steps, initial=first_step - 1, unit="step", disable=not has_bar, leave=False)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if not self._bar.disable:  # lines go above the bar
            self._stack.enter_context(logging_redirect_tqdm([logger]))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.close()
        self._stack.close()
        self.board.close()

    def step_made(self) -> None:
        """Move the bar."""
        self._bar.update()

    def report(self, progress: Progress, losses: Mapping[str, float], scalars: Mapping[str, float]) -> None:
        """Tell the means since the last report. losses: by their tags. scalars: more of what the curves show."""
        step = progress.step
        told = {
            **losses,
            **scalars,
            "progress/epoch": float(progress.epoch),
            "progress/images_per_s": progress.images_per_s,
            "progress/waiting_for_data": progress.waiting_share,
        }
        self.board.write_scalars(told, step)
        if self._metrics:
            self._metrics.append(step, told)
        terms = "  ".join(f"{_short(tag)} {value:.3f}" for tag, value in losses.items())
        skipped = f"  skipped {progress.skipped_steps}" if progress.skipped_steps else ""
        logger.info(
            f"step {step:>6}/{self._total_steps}  epoch {progress.epoch:>3}  {progress.images_per_s:6.1f} images/s  "
            f"{progress.waiting_share:4.0%} waiting for data  {_duration(progress.left_s)} left  {terms}{skipped}"
        )
        totals = {tag.split("/")[1]: f"{value:.3f}" for tag, value in losses.items() if tag.endswith("/total")}
        self._bar.set_postfix(
            {**totals, "images/s": f"{progress.images_per_s:.1f}"} | ({"skipped": skipped} if skipped else {})
        )
        for hint in self._hints(told):
            logger.warning("hint: %s", hint)

    def report_validation(self, step: int, summary: Summary) -> None:
        """Tell the figures of the validation samples, all together."""
        told = {f"validation/{name}": value for name, value in summary.figures.items()}
        classes = {f"iou/{name}": score.iou for name, score in summary.classes.items() if score.iou is not None}
        self.board.write_scalars({**told, **classes}, step)
        if self._metrics:
            self._metrics.append(step, {**told, **classes})
        logger.info("validation   %s", summary)


def _short(tag: str) -> str:
    """loss/G/l1 -> G/l1, logits/D/real -> D(real)."""
    section, _, name = tag.partition("/")
    return f"D({name})" if section == "judgement" else f"|g| {name}" if section == "gradient_norm" else name


def _duration(seconds: float) -> str:
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}"
