"""The page web/index.html of a run's folder: the validation samples of all validations."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from data.files.image_files import write_png
from metrics.evaluator import TITLES
from training.run_record import JsonLines
from utils.gallery import Row, Swatch, write_gallery
from utils.log import logger
from utils.run_figures import read_sample_rows

MOST_LATEST = 100  # validations that the page shows all of, and as many earlier ones at most


class SamplePage:
    """The page index.html of a folder: the samples of the validations, the latest first.

    Of a long run it shows the validations of `shown_steps`, so that writing and opening it does not take ever longer;
    rows.jsonl and the images are of all. A run that resumes from an earlier step continues it. A disk that fails costs
    the page, not the run.

    legend: the classes of label maps.
    can_draw: whether the playground takes the network, whose command the page shows then.
    """

    def __init__(self, folder: Path, first_step: int, legend: Sequence[Swatch] = (), *, can_draw: bool = True) -> None:
        self._folder = folder
        self._legend = legend
        self._can_draw = can_draw
        self._rows_file = folder / "rows.jsonl"
        self._rows = JsonLines(self._rows_file, first_step)

    def add(
        self, step: int, number: int, name: str, pictures: Mapping[str, Tensor], figures: Mapping[str, float]
    ) -> None:
        """Write the pictures of sample `number`, (3, H, W) uint8, by kind; real ones are the same at each step."""
        steps = {kind: "" if kind in ("source", "target", "real") else f"_{step:08d}" for kind in pictures}
        files = {kind: f"images/sample_{number}_{kind}{of_step}.png" for kind, of_step in steps.items()}
        with _forgiving_disk():
            for kind, picture in pictures.items():
                write_png(self._folder / files[kind], picture)
            self._rows.append(step, {"name": name, "images": files, "metrics": dict(figures)})

    def write(self) -> None:
        """Write the page."""
        run_folder = self._folder.parent
        command = shlex.join(["python", "-m", "tools.playground", "--checkpoint", str(run_folder)])
        with _forgiving_disk():
            recorded = read_sample_rows(self._rows_file)
            steps = list(dict.fromkeys(row["step"] for row in recorded))
            shown = frozenset(shown_steps(steps))
            rows = [_row(row) for row in reversed(recorded) if row["step"] in shown]
            left_out = f", {len(shown)} of {len(steps)} validations" if len(shown) < len(steps) else ""
            write_gallery(
                self._folder / "index.html",
                rows,
                run_folder.name + left_out,
                order="latest validation first",
                command=command if self._can_draw else None,
                legend=self._legend,
            )


def _row(record: Mapping[str, Any]) -> Row:
    figures = {TITLES.get(name, name): value for name, value in record.get("metrics", {}).items()}
    step = record["step"]
    return Row(f"{record['name']}, step {step}", record["images"], metrics={"step": step, **figures})


def shown_steps(steps: Sequence[int]) -> list[int]:
    """Return the latest MOST_LATEST of the steps in order, and at most as many earlier ones at even distances."""
    earlier, latest, stride = steps[:-MOST_LATEST], steps[-MOST_LATEST:], 1
    while len(earlier) > MOST_LATEST * stride:
        stride *= 2  # so that a step which is left out stays so
    return [*earlier[::stride], *latest]


@contextmanager
def _forgiving_disk() -> Iterator[None]:
    """Turn a failing disk into a warning."""
    try:
        yield
    except OSError as error:
        logger.warning("the page of validation samples is incomplete: %s", error)
