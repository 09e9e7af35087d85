"""TensorBoard's events of a run: curves, pictures of the validation samples, and the tab HPARAMS."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from training.report.report import Progress, Sink
from training.validation import ValidationReport
from utils.run_figures import METRICS_FILE, best, curves, read_rows
from utils.yaml_file import shortened

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


class TensorBoard(Sink):
    """Writes events into the folder of a run. After a failure of the disk it writes none in this session.

    settings: Settings of the run by `section.key`, for the tab HPARAMS.
    """

    place = "TensorBoard's events"

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self._folder = folder
        self._settings = settings
        self._writer: SummaryWriter | None = None
        self._previous_hook = threading.excepthook

    def open(self, first_step: int) -> None:
        """Open a file of events."""
        self._previous_hook, threading.excepthook = threading.excepthook, self._report_thread
        # also in the first session: TensorBoard takes the first mark for no restart, and hides nothing
        self._writer = SummaryWriter(str(self._folder), purge_step=first_step)
        self._write(lambda writer: writer.add_custom_scalars(LAYOUT))

    def progress(self, report: Progress) -> None:
        """Write the scalars."""
        self._write(lambda writer: _add_scalars(writer, report.scalars, report.step))

    def validation(self, step: int, report: ValidationReport) -> None:
        """Write the figures, the split of the samples, and their pictures."""

        def add(writer: SummaryWriter) -> None:
            _add_scalars(writer, report.scalars, step)
            writer.add_text("validation/split", report.split, step)
            for tag, image in report.images.items():
                writer.add_image(tag, image, step)

        self._write(add)

    def close(self) -> None:
        """Write the settings and the best figures, and what is left."""
        try:
            self._write(self._add_hparams)
            self._write(SummaryWriter.close)
        finally:
            threading.excepthook = self._previous_hook

    def _write(self, add: Callable[[SummaryWriter], object]) -> None:
        """Call `add` with torch's writer, and flush what it adds to the disk."""
        writer, self._writer = self._writer, None
        if writer:
            add(writer)
            writer.flush()
            self._writer = writer

    def _add_hparams(self, writer: SummaryWriter) -> None:
        """List the run in the tab HPARAMS, with its settings, and the last and the best of each metric.

        SummaryWriter.add_hparams would make a run of its own for them, in a folder below.
        """
        points = curves(read_rows(self._folder / METRICS_FILE))
        validations = {tag: of for tag, of in points.items() if tag.startswith("validation")}
        if not validations:  # the first list of metrics that TensorBoard finds is the one that it shows
            return
        bests = {tag.replace("validation", "best", 1): (best(tag, of), of[-1].step) for tag, of in validations.items()}
        shown = {key: of if type(of) in (int, float) else shortened(of) for key, of in self._settings.items()}
        for summary in hparams(shown, dict.fromkeys([*validations, *bests], 0.0)):
            writer.file_writer.add_summary(summary)  # type: ignore[attr-defined]  # torch declares it as None
        for tag, (point, step) in bests.items():
            writer.add_scalar(tag, point.value, step)

    def _report_thread(self, failure: threading.ExceptHookArgs) -> None:
        """Leave out the traceback of the thread that writes the events, whose OSError the next call here raises."""
        is_ours = type(failure.thread).__module__.startswith("tensorboard.")
        if not (is_ours and isinstance(failure.exc_value, OSError)):
            self._previous_hook(failure)


def _add_scalars(writer: SummaryWriter, scalars: Mapping[str, float], step: int) -> None:
    for tag, value in scalars.items():
        writer.add_scalar(tag, value, step)
