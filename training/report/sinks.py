"""Reports of a run, and the sinks that write them: console, metrics.jsonl, TensorBoard and an HTML page."""

import shlex
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from data.files.image_files import write_png
from metrics.evaluator import TITLES
from metrics.segmentation import class_line
from training.validation import ValidationReport
from utils.files import replacing
from utils.gallery import Row, Swatch, write_gallery
from utils.log import logger
from utils.plain_values import strict_json
from utils.run_figures import read_rows

_NOT_IN_LINES = ("learning_rate", "amp", "progress")  # sections of tags that the console leaves out
_CONSTANT = ("source", "target", "real", "weights")  # pictures that are the same at each step
SHOWN_VALIDATIONS = 100  # largest number of validations on the page

# charts of TensorBoard's tab "custom scalars", by section; the tags are regular expressions
CHARTS = {
    "losses": {"generator": "loss/G/.*", "discriminator": "loss/D/.*", "output of the discriminator": "logits/D/.*"},
    "validation": {
        "L1": "validation/l1(_weighted)?",
        "PSNR": "validation/psnr(_weighted)?",
        "SSIM": "validation/(ms_)?ssim(_weighted)?",
    },
    "progress": {
        "images per second": "progress/images_per_s",
        "scales and skipped steps": "amp/.*",
        "gradient norms": "gradient_norm/.*",
    },
}


@dataclass(frozen=True)
class Progress:
    """Figures of the steps since the last report.

    scalars: All figures by TensorBoard tag: means of losses and logits, learning rates, loss scales, speed.
    left_s: Estimated time until the last step, in seconds.
    """

    step: int
    scalars: Mapping[str, float]
    left_s: float


class Sink:
    """A destination for the reports of a run. All methods do nothing by default.

    Each method may raise OSError if the disk fails. The run then continues, with a warning.

    place: Name of the file, folder or program, for warnings.
    """

    place: Path | str

    def open(self, first_step: int) -> None:
        """Begin a session of the run. Hide records of `first_step` and later steps, which a killed session left."""

    def end_step(self) -> None:
        """Count a training step."""

    def progress(self, report: Progress) -> None:
        """Write the figures of the latest steps."""

    def validation(self, step: int, report: ValidationReport) -> None:
        """Write the figures and pictures of a validation."""

    def close(self) -> None:
        """Write pending records."""


class Report:
    """Passes each report to all sinks. Only the main process has sinks."""

    def __init__(self, sinks: Sequence[Sink], first_step: int) -> None:
        """Begin a session with `first_step`."""
        self._sinks = sinks
        self._failed: set[Sink] = set()
        self.each(lambda sink: sink.open(first_step))

    def each(self, write: Callable[[Sink], None]) -> None:
        """Call `write` with each sink. If the disk fails, warn once for each sink and continue."""
        for sink in self._sinks:
            try:
                write(sink)
            except OSError as error:
                if sink not in self._failed:
                    text = "%s: %s. The run continues, but its log is incomplete."
                    logger.warning(text, sink.place, error.strerror or error)
                self._failed.add(sink)

    def close(self) -> None:
        """Close all sinks."""
        self.each(lambda sink: sink.close())


class Console(Sink):
    """Logs a line for each report, and shows a progress bar in a terminal."""

    place = "console"

    def __init__(self, total_steps: int) -> None:
        self._total_steps = total_steps
        self._stack = ExitStack()

    def open(self, first_step: int) -> None:
        """Show the bar."""
        has_bar = sys.stderr.isatty()
        self._bar = self._stack.enter_context(
            tqdm(total=self._total_steps, initial=first_step - 1, unit="step", disable=not has_bar, leave=False)
        )
        if has_bar:  # log lines appear above the bar
            self._stack.enter_context(logging_redirect_tqdm([logger]))

    def end_step(self) -> None:
        """Move the bar."""
        self._bar.update()

    def progress(self, report: Progress) -> None:
        """Log the figures."""
        scalars, images_per_s = report.scalars, report.scalars["progress/images_per_s"]
        n_skipped = sum(int(value) for tag, value in scalars.items() if tag.startswith("amp/skipped_steps/"))
        means = {tag: value for tag, value in scalars.items() if tag.partition("/")[0] not in _NOT_IN_LINES}
        terms = "  ".join(f"{_short(tag)} {value:.3f}" for tag, value in means.items())
        logger.info(
            f"step {report.step:>6}/{self._total_steps}  epoch {scalars['progress/epoch']:>3.0f}  "
            f"{images_per_s:6.1f} images/s  {scalars['progress/waiting_for_data']:4.0%} waiting for data  "
            f"{tqdm.format_interval(report.left_s)} left  {terms}{f'  skipped {n_skipped}' if n_skipped else ''}"
        )

    def validation(self, step: int, report: ValidationReport) -> None:
        """Log the figures of the validation samples, and the hints about the translations."""
        logits = report.scalars.get("logits/D/validation")
        seen = "" if logits is None else f"  {_short('logits/D/validation')} {logits:.3f}"
        logger.info("validation (%s)   %s%s", report.split, report.summary, seen)
        if report.summary.classes:
            logger.info("validation (%s)   IoU  %s", report.split, class_line(report.summary.classes))
        for hint in report.hints:
            logger.warning("hint: %s", hint)

    def close(self) -> None:
        """Remove the bar."""
        self._stack.close()


def _short(tag: str) -> str:
    """Shorten a tag for a line: loss/G/l1 to G/l1, logits/D_A/real to D_A(real)."""
    section, _, name = tag.partition("/")
    if section == "logits":
        network, _, of_what = name.partition("/")
        return f"{network}({of_what})"
    return f"|g| {name}" if section == "gradient_norm" else name


class JsonLines:
    """A file with one JSON record per line. Each record has a step. NaN and infinity are written as null."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.place: Path | str = path
        self._begin = ""

    def open(self, first_step: int) -> None:
        """Remove damaged lines, and records of `first_step` and later steps, which a killed session left."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = "".join(strict_json(row) + "\n" for row in read_rows(self.path) if row["step"] < first_step).encode()
        if self.path.is_file() and self.path.read_bytes() != content:
            with replacing(self.path) as unfinished:
                unfinished.write_bytes(content)

    def append(self, step: int, record: Mapping[str, Any]) -> None:
        """Write one record."""
        begin, self._begin = self._begin, "\n"  # "\n" ends a line that a failed write left incomplete
        with self.path.open("a", encoding="utf-8") as file:
            file.write(begin + strict_json({"step": step, **record}) + "\n")
        self._begin = ""


class MetricsFile(JsonLines, Sink):
    """Writes the scalars of each report and validation to metrics.jsonl."""

    def progress(self, report: Progress) -> None:
        """Write the scalars."""
        self.append(report.step, report.scalars)

    def validation(self, step: int, report: ValidationReport) -> None:
        """Write the figures, and the name of the validation split."""
        self.append(step, {"split": report.split, **report.scalars})


class Page(Sink):
    """Writes the pictures of the validation samples, and web/index.html with the latest validation first.

    The page shows only SHOWN_VALIDATIONS validations, so that browsers open it fast. rows.jsonl and the images cover
    all validations.

    legend: Classes of label maps.
    can_draw: Whether the playground accepts the network. If True, the page shows the playground's command.
    """

    def __init__(self, folder: Path, legend: Sequence[Swatch] = (), *, can_draw: bool = True) -> None:
        self.place = folder
        self._legend = legend
        command = shlex.join(["python", "-m", "tools.playground", "--checkpoint", str(folder.parent)])
        self._command = command if can_draw else None
        self._rows = JsonLines(folder / "rows.jsonl")

    def open(self, first_step: int) -> None:
        """Remove rows of `first_step` and later steps, which a killed session left."""
        self._rows.open(first_step)

    def validation(self, step: int, report: ValidationReport) -> None:
        """Write the pictures and the page."""
        for number, sample in enumerate(report.samples):
            steps = {kind: "" if kind in _CONSTANT else f"_{step:08d}" for kind in sample.pictures}
            files = {kind: f"images/sample_{number}_{kind}{of_step}.png" for kind, of_step in steps.items()}
            for kind, picture in sample.pictures.items():
                write_png(self._rows.path.parent / files[kind], picture)
            self._rows.append(step, {"name": sample.name, "images": files, "metrics": sample.figures})
        self.write()

    def write(self) -> None:
        """Write the page from the recorded rows."""
        recorded = [row for row in read_rows(self._rows.path) if _is_sample(row)]
        steps = list(dict.fromkeys(row["step"] for row in recorded))
        shown = steps[-SHOWN_VALIDATIONS:]
        left_out = f", {len(shown)} of {len(steps)} validations" if len(shown) < len(steps) else ""
        write_gallery(
            self._rows.path.with_name("index.html"),
            [_row(row) for row in reversed(recorded) if row["step"] in shown],
            self._rows.path.parent.parent.name + left_out,
            order="latest validation first",
            command=self._command,
            legend=self._legend,
        )


def _is_sample(row: Mapping[str, Any]) -> bool:
    """Return whether a row has the structure that `Page` writes. A damaged file must not end the run."""
    images, figures = row.get("images"), row.get("metrics")
    if not (isinstance(images, dict) and isinstance(figures, dict)):
        return False
    are_texts = all(isinstance(text, str) and "\0" not in text for text in (row.get("name"), *images.values()))
    return are_texts and all(isinstance(value, int | float | None) for value in figures.values())


def _row(record: Mapping[str, Any]) -> Row:
    step, figures = record["step"], {TITLES.get(name, name): value for name, value in record["metrics"].items()}
    return Row(f"{record['name']}, step {step}", record["images"], metrics={"step": step, **figures})


class TensorBoard(Sink):
    """Writes curves and pictures for TensorBoard into the folder of a run. It writes nothing after a disk error."""

    place = "TensorBoard's events"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: SummaryWriter | None = None
        self._previous_hook = threading.excepthook

    def open(self, first_step: int) -> None:
        """Open a new event file."""
        self._previous_hook, threading.excepthook = threading.excepthook, self._report_thread
        # set purge_step in the first session too, because TensorBoard ignores the first purge_step in a folder
        self._writer = SummaryWriter(str(self._folder), purge_step=first_step)
        charts = {part: {name: ["Multiline", [tags]] for name, tags in of.items()} for part, of in CHARTS.items()}
        self._write(lambda writer: writer.add_custom_scalars(charts))

    def progress(self, report: Progress) -> None:
        """Write the scalars."""
        self._write(lambda writer: _add_scalars(writer, report.scalars, report.step))

    def validation(self, step: int, report: ValidationReport) -> None:
        """Write the figures, the name of the validation split, and the pictures."""

        def add(writer: SummaryWriter) -> None:
            _add_scalars(writer, report.scalars, step)
            writer.add_text("validation/split", report.split, step)
            for tag, image in report.images.items():
                writer.add_image(tag, image, step)

        self._write(add)

    def close(self) -> None:
        """Close the event file."""
        try:
            self._write(SummaryWriter.close)
        finally:
            threading.excepthook = self._previous_hook

    def _write(self, add: Callable[[SummaryWriter], object]) -> None:
        """Call `add` with the writer, and flush the writer to the disk."""
        writer, self._writer = self._writer, None
        if writer:
            add(writer)
            writer.flush()
            self._writer = writer

    def _report_thread(self, failure: threading.ExceptHookArgs) -> None:
        """Print no traceback for a disk error in TensorBoard's thread. The next call of the writer raises the error."""
        is_ours = type(failure.thread).__module__.startswith("tensorboard.")
        if not (is_ours and isinstance(failure.exc_value, OSError)):
            self._previous_hook(failure)


def _add_scalars(writer: SummaryWriter, scalars: Mapping[str, float], step: int) -> None:
    for tag, value in scalars.items():
        writer.add_scalar(tag, value, step)
