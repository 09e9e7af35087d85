"""Reports of a run while it trains: lines of the log, a progress bar, metrics.jsonl, state.json, TensorBoard, hints."""

import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from torch import Tensor
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from metrics.evaluator import Summary
from metrics.segmentation import class_line
from training.diagnostics import Diagnostics
from training.optimizer_group import OptimizerGroup
from training.run_data import LoopState
from training.run_folder import watched
from training.run_record import JsonLines, write_state
from training.sample_page import SamplePage
from utils.log import logger
from utils.run_figures import METRICS_FILE, Point, best, curves, read_rows
from utils.yaml_file import shortened


class RunLog:
    """The log of one session of a run, from `first_step` to `total_steps`; in a process without folder it is silent.

    gan_mode: the adversarial loss, whose logits show whether a discriminator has won.
    page: of the validation samples; None in a process without folder.
    settings: of the run, by `section.key`, which TensorBoard lists.
    """

    def __init__(
        self,
        folder: Path | None,
        first_step: int,
        total_steps: int,
        gan_mode: str,
        page: SamplePage | None,
        settings: Mapping[str, object],
    ) -> None:
        self._tensorboard = TensorBoardWriter(folder, first_step)
        self._folder = folder
        self._metrics = JsonLines(folder / METRICS_FILE, first_step) if folder else None
        self.page = page
        self._diagnostics = Diagnostics(gan_mode)
        self._total_steps = total_steps
        self._settings = settings
        has_bar = folder is not None and sys.stderr.isatty()
        self._bar = tqdm(total=total_steps, initial=first_step - 1, unit="step", disable=not has_bar, leave=False)
        self._stack = ExitStack()
        self._check_folder = self._stack.enter_context(watched(folder)) if folder else lambda: None
        if has_bar:  # lines go above the bar
            self._stack.enter_context(logging_redirect_tqdm([logger]))

    def close(self) -> None:
        """Remove the bar, and write what is left."""
        self._bar.close()
        self._stack.close()
        if self._folder:
            path = self._folder / METRICS_FILE
            self._tensorboard.write(lambda writer: add_hparams(writer, self._settings, curves(read_rows(path))))
        self._tensorboard.close()

    def advance_bar(self) -> None:
        """Move the bar; raise UserError if the run's folder was removed."""
        self._check_folder()
        self._bar.update()

    def report(
        self,
        state: LoopState,
        means: Mapping[str, float],
        optimizers: Mapping[str, OptimizerGroup],
        *,
        steps_per_s: float,
        waiting_share: float,
        batches_per_step: int,
    ) -> Mapping[str, float]:
        """Report the means since the last report, the state of the optimizers, and the speed; return all by tags."""
        step, epoch = state.step, state.n_started_epochs
        images_per_s = steps_per_s * state.joint_batch_size * batches_per_step
        n_skipped = sum(int(group.skipped_steps) for group in optimizers.values())
        scalars = {
            **means,
            **{f"learning_rate/{name}": group.learning_rate for name, group in optimizers.items()},
            **{f"amp/scale/{name}": group.scaler.get_scale() for name, group in optimizers.items()},
            **{f"amp/skipped_steps/{name}": float(group.skipped_steps) for name, group in optimizers.items()},
            "progress/epoch": float(epoch),
            "progress/images_per_s": images_per_s,
            "progress/waiting_for_data": waiting_share,
        }
        self._write(step, scalars)
        if self._folder:
            write_state(self._folder, "running", step)
        left_s = (self._total_steps - step) / steps_per_s
        terms = "  ".join(f"{_short(tag)} {value:.3f}" for tag, value in means.items())
        skipped = f"  skipped {n_skipped}" if n_skipped else ""
        logger.info(
            f"step {step:>6}/{self._total_steps}  epoch {epoch:>3}  {images_per_s:6.1f} images/s  "
            f"{waiting_share:4.0%} waiting for data  {tqdm.format_interval(left_s)} left  {terms}{skipped}"
        )
        totals = {tag.split("/")[1]: f"{value:.3f}" for tag, value in means.items() if tag.endswith("/total")}
        self._bar.set_postfix({**totals, "images/s": f"{images_per_s:.1f}"} | ({"skipped": skipped} if skipped else {}))
        self.report_hints(self._diagnostics(scalars))
        return scalars

    def report_hints(self, hints: Sequence[str]) -> None:
        """Report that the training seems stuck."""
        for hint in hints:
            logger.warning("hint: %s", hint)

    def report_validation(self, step: int, summary: Summary, mean_logits: float | None, split: str) -> None:
        """Report the figures of all validation samples, those of `split`, together.

        mean_logits: the discriminator's mean output for the samples and their targets, if it was computed.
        """
        figures = {f"validation/{name}": value for name, value in summary.figures.items()}
        classes = {f"iou/{name}": score.iou for name, score in summary.classes.items() if score.iou is not None}
        logits = {} if mean_logits is None else {"logits/D/validation": mean_logits}
        self._write(step, {**figures, **classes, **logits}, split=split)
        self._tensorboard.write(lambda writer: writer.add_text("validation/split", split, step))
        seen = "".join(f"  {_short(tag)} {value:.3f}" for tag, value in logits.items())
        logger.info("validation (%s)   %s%s", split, summary, seen)
        if summary.classes:
            logger.info("validation (%s)   IoU  %s", split, class_line(summary.classes))

    def report_scalars(self, step: int, scalars: Mapping[str, float]) -> None:
        """Report figures by their tags, without a line of the log."""
        if finite := {tag: value for tag, value in scalars.items() if math.isfinite(value)}:
            self._write(step, finite)

    def write_image(self, tag: str, image: Tensor, step: int) -> None:
        """Show a (3, H, W) uint8 image in TensorBoard."""
        self._tensorboard.write(lambda writer: writer.add_image(tag, image, step))

    def _write(self, step: int, scalars: Mapping[str, float], **texts: str) -> None:
        def add(writer: SummaryWriter) -> None:
            for tag, value in scalars.items():
                writer.add_scalar(tag, value, step)

        self._tensorboard.write(add)
        if self._metrics:
            self._metrics.append(step, {**texts, **scalars})


def _short(tag: str) -> str:
    """Return a tag as a line of the log has it: loss/G/l1 as G/l1, logits/D_A/real as D_A(real)."""
    section, _, name = tag.partition("/")
    if section == "logits":
        network, _, of_what = name.partition("/")
        return f"{network}({of_what})"
    return f"|g| {name}" if section == "gradient_norm" else name


# the tab "custom scalars": curves that are read together, in one chart; tags are regular expressions
LAYOUT = {
    "losses": {
        "generator": ["Multiline", ["loss/G/.*"]],
        "discriminator": ["Multiline", ["loss/D/.*"]],
        "what the discriminator gives": ["Multiline", ["logits/D/.*"]],
    },
    "validation": {
        "L1": ["Multiline", ["validation/l1(_weighted)?"]],
        "PSNR": ["Multiline", ["validation/psnr(_weighted)?"]],
        "SSIM": ["Multiline", ["validation/(ms_)?ssim(_weighted)?"]],
    },
    "progress": {
        "images per second": ["Multiline", ["progress/images_per_s"]],
        "scales and skipped steps": ["Multiline", ["amp/.*"]],
        "gradient norms": ["Multiline", ["gradient_norm/.*"]],
    },
}


def add_hparams(writer: SummaryWriter, settings: Mapping[str, object], points: Mapping[str, Sequence[Point]]) -> None:
    """Let TensorBoard's tab HPARAMS list the run with its settings, and the last and the best of each metric.

    SummaryWriter.add_hparams would make a run of its own for them, in a folder below.
    """
    validations = {tag: of for tag, of in points.items() if tag.startswith("validation")}
    if not validations:  # the first list of metrics that TensorBoard finds is the one that it shows
        return
    bests = {
        tag.replace("validation", "best", 1): (best(tag, of).value, of[-1].step) for tag, of in validations.items()
    }
    shown = {key: value if type(value) in (int, float) else shortened(value) for key, value in settings.items()}
    for summary in hparams(shown, dict.fromkeys([*validations, *bests], 0.0)):
        writer.file_writer.add_summary(summary)  # type: ignore[attr-defined]  # torch declares it as None
    for tag, (value, step) in bests.items():
        writer.add_scalar(tag, value, step)


class TensorBoardWriter:
    """Writes events into the folder of a run, if there is one; a disk that fails ends the curves, not the run."""

    def __init__(self, run_folder: Path | None, first_step: int) -> None:
        """Start at `first_step`; what an interrupted run wrote of that step and later is hidden from the curves."""
        self._previous_hook, threading.excepthook = threading.excepthook, self._report_thread
        self._writer: SummaryWriter | None = None
        with self._forgiving_disk():
            # also in the first session: TensorBoard takes the first mark for no restart, and hides nothing
            self._writer = SummaryWriter(str(run_folder), purge_step=first_step) if run_folder else None
        self.write(lambda writer: writer.add_custom_scalars(LAYOUT))

    def write(self, add: Callable[[SummaryWriter], object]) -> None:
        """Call `add` with torch's writer, and flush what it adds to the disk."""
        if self._writer is None:
            return
        with self._forgiving_disk():
            add(self._writer)
            self._writer.flush()

    @contextmanager
    def _forgiving_disk(self) -> Iterator[None]:
        """End the events of this session, with a warning, when the disk fails."""
        try:
            yield
        except OSError as error:
            self._writer = None
            logger.warning("TensorBoard's events can be written no more in this session: %s", error)

    def close(self) -> None:
        """Write what is left."""
        self.write(SummaryWriter.close)
        threading.excepthook = self._previous_hook

    def _report_thread(self, failure: threading.ExceptHookArgs) -> None:
        """Leave out the traceback of the thread that writes the events, whose OSError the next call here raises."""
        is_ours = type(failure.thread).__module__.startswith("tensorboard.")
        if not (is_ours and isinstance(failure.exc_value, OSError)):
            self._previous_hook(failure)
