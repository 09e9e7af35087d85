"""metrics.jsonl: the figures of a run as lines of JSON, for programs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training.report.report import Progress, Sink
from training.validation import ValidationReport
from utils.files import replacing
from utils.plain_values import strict_json
from utils.run_figures import read_rows


class JsonLines:
    """A file of records with their step, one a line. Numbers that are not finite are written as null."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.place: Path | str = path
        self._begin = ""

    def open(self, first_step: int) -> None:
        """Remove damaged lines, and records of `first_step` and later, which a killed session left."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = "".join(_line(row) for row in read_rows(self.path) if row["step"] < first_step).encode()
        if self.path.is_file() and self.path.read_bytes() != content:
            with replacing(self.path) as unfinished:
                unfinished.write_bytes(content)

    def append(self, step: int, record: Mapping[str, Any]) -> None:
        """Write one record."""
        begin, self._begin = self._begin, "\n"  # after a failure it ends the line that may be incomplete
        with self.path.open("a", encoding="utf-8") as file:
            file.write(begin + _line({"step": step, **record}))
        self._begin = ""


def _line(row: Mapping[str, Any]) -> str:
    return strict_json(row) + "\n"


class MetricsFile(JsonLines, Sink):
    """Writes the scalars of each report and validation to metrics.jsonl."""

    def progress(self, report: Progress) -> None:
        """Write the scalars."""
        self.append(report.step, report.scalars)

    def validation(self, step: int, report: ValidationReport) -> None:
        """Write the figures, and the split of the samples."""
        self.append(step, {"split": report.split, **report.scalars})
