"""The page web/index.html of a run: the validation samples of all validations."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data.files.image_files import write_png
from metrics.evaluator import TITLES
from training.report.metrics_file import JsonLines
from training.report.report import Sink
from training.validation import ValidationReport
from utils.gallery import Row, Swatch, write_gallery
from utils.run_figures import read_rows

CONSTANT = ("source", "target", "real", "weights")  # pictures that are the same at each step
MOST_LATEST = 100  # validations that the page shows all of, and as many earlier ones at most


class Page(Sink):
    """Writes the pictures of the validation samples, and a page with the latest validation first.

    For a long run the page shows only the validations of `shown_steps`, so that writing and opening it does not take
    ever longer. rows.jsonl and the images cover all validations.

    legend: Classes of label maps.
    can_draw: Whether the playground takes the network. The page then shows its command.
    """

    def __init__(self, folder: Path, legend: Sequence[Swatch] = (), *, can_draw: bool = True) -> None:
        self.place = folder
        self._run_folder = folder.parent
        self._legend = legend
        self._command = shlex.join(["python", "-m", "tools.playground", "--checkpoint", str(folder.parent)])
        self._can_draw = can_draw
        self._rows = JsonLines(folder / "rows.jsonl")

    def open(self, first_step: int) -> None:
        """Remove the rows of a killed session."""
        self._rows.open(first_step)

    def validation(self, step: int, report: ValidationReport) -> None:
        """Write the pictures and the page."""
        for number, sample in enumerate(report.samples):
            steps = {kind: "" if kind in CONSTANT else f"_{step:08d}" for kind in sample.pictures}
            files = {kind: f"images/sample_{number}_{kind}{of_step}.png" for kind, of_step in steps.items()}
            for kind, picture in sample.pictures.items():
                write_png(self._rows.path.parent / files[kind], picture)
            self._rows.append(step, {"name": sample.name, "images": files, "metrics": sample.figures})
        self.write()

    def write(self) -> None:
        """Write the page from the recorded rows."""
        recorded = [row for row in read_rows(self._rows.path) if _is_sample(row)]
        steps = list(dict.fromkeys(row["step"] for row in recorded))
        shown = frozenset(shown_steps(steps))
        left_out = f", {len(shown)} of {len(steps)} validations" if len(shown) < len(steps) else ""
        write_gallery(
            self._rows.path.with_name("index.html"),
            [_row(row) for row in reversed(recorded) if row["step"] in shown],
            self._run_folder.name + left_out,
            order="latest validation first",
            command=self._command if self._can_draw else None,
            legend=self._legend,
        )


def _is_sample(row: Mapping[str, Any]) -> bool:
    """Return whether a row has the form that `Page` writes; a damaged file must not end the run."""
    images, figures = row.get("images"), row.get("metrics")
    if not (isinstance(images, dict) and isinstance(figures, dict)):
        return False
    are_texts = all(isinstance(text, str) and "\0" not in text for text in (row.get("name"), *images.values()))
    return are_texts and all(isinstance(value, int | float | None) for value in figures.values())


def _row(record: Mapping[str, Any]) -> Row:
    figures = {TITLES.get(name, name): value for name, value in record["metrics"].items()}
    step = record["step"]
    return Row(f"{record['name']}, step {step}", record["images"], metrics={"step": step, **figures})


def shown_steps(steps: Sequence[int]) -> list[int]:
    """Return the latest MOST_LATEST of the steps in order, and at most as many earlier ones at even distances."""
    earlier, latest, stride = steps[:-MOST_LATEST], steps[-MOST_LATEST:], 1
    while len(earlier) > MOST_LATEST * stride:
        stride *= 2  # so that a step which is left out stays so
    return [*earlier[::stride], *latest]
