"""The record of a report, and the sinks that write it: console, metrics.jsonl, TensorBoard, state.json, page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from training.validation import ValidationReport
from utils.log import logger


@dataclass(frozen=True)
class Progress:
    """The figures of the steps since the last report.

    scalars: All figures by TensorBoard tag: means of losses and logits, learning rates, scales, speed.
    left_s: Estimated time to the last step, in seconds.
    """

    step: int
    scalars: Mapping[str, float]
    left_s: float


class Sink:
    """A place that reports of a run are written to. A method that a sink does not define does nothing.

    Each method may raise OSError if the disk fails. The run then continues, with a warning.

    place: File, folder or program that warnings name.
    """

    place: Path | str

    def open(self, first_step: int) -> None:
        """Begin a session of the run, and hide what a killed session wrote of `first_step` and later steps."""

    def end_step(self) -> None:
        """Note the end of a training step."""

    def progress(self, report: Progress) -> None:
        """Write the figures of the latest steps."""

    def validation(self, step: int, report: ValidationReport) -> None:
        """Write the figures and pictures of a validation."""

    def close(self) -> None:
        """Write what is left."""


class Report:
    """Hands each record to all sinks. Processes other than the main one have no sinks."""

    def __init__(self, sinks: Sequence[Sink], first_step: int) -> None:
        """Begin a session with `first_step`."""
        self._sinks = sinks
        self._failed: set[Sink] = set()
        self._each(lambda sink: sink.open(first_step))

    def end_step(self) -> None:
        """Note the end of a training step."""
        self._each(lambda sink: sink.end_step())

    def progress(self, report: Progress) -> None:
        """Report the figures of the latest steps."""
        self._each(lambda sink: sink.progress(report))

    def validation(self, step: int, report: ValidationReport) -> None:
        """Report a validation."""
        self._each(lambda sink: sink.validation(step, report))

    def close(self) -> None:
        """Write what is left."""
        self._each(lambda sink: sink.close())

    def _each(self, write: Callable[[Sink], None]) -> None:
        for sink in self._sinks:
            try:
                write(sink)
            except OSError as error:
                if sink not in self._failed:
                    text = "%s: %s. The run continues, and records are missing there."
                    logger.warning(text, sink.place, error.strerror or error)
                self._failed.add(sink)
