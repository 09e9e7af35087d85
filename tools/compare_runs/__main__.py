"""Compare runs: the settings that differ, the last and the best of each metric, curves, samples side by side.

python -m tools.compare_runs runs/a runs/b ... [--output comparison.html]

The page is one file, with its pictures. It reads what the runs have written so far, also of those that still train.
"""

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from shutil import get_terminal_size

from tools.compare_runs.page import write_page
from tools.compare_runs.recorded_runs import (
    NONE,
    RecordedRun,
    best_run,
    compared_metrics,
    describe_other_samples,
    differing_settings,
    read_runs,
)
from utils.cli import ArgumentParser, OnlyOnce, run_entry_point
from utils.text import printable

MAX_VALUE = 40  # characters of a setting
_PAGE = Path("comparison.html")


def main(argv: Sequence[str]) -> None:
    """Print the comparison, and write the page."""
    parser = ArgumentParser(description="Compare runs: settings, metrics, curves and samples.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run, as runs/demo")
    page_help = f"the page; default: {_PAGE}"
    parser.add_argument("--output", type=Path, action=OnlyOnce, metavar="FILE", help=page_help)
    arguments = parser.parse_args(argv)
    runs = read_runs(arguments.runs)
    sys.stdout.writelines(f"{line}\n" for line in report(runs))
    write_page(page := arguments.output or _PAGE, runs)
    sys.stdout.write(f"\nwrote {page}\n")


def report(runs: Sequence[RecordedRun]) -> Iterator[str]:
    """Yield the lines of the comparison."""
    names = [run.name for run in runs]
    yield from aligned([["run", "state"], *([run.name, run.status] for run in runs)])
    differing = [(key, [clipped(value) for value in values]) for key, values in differing_settings(runs).items()]
    settings = list(aligned([("setting", *names), *((key, *values) for key, values in differing)]))
    if max(map(len, settings)) > get_terminal_size().columns:
        each = [(key, name, value) for key, values in differing for name, value in zip(names, values, strict=True)]
        settings = list(aligned([("setting", "run", "value"), *each]))
    if len(runs) > 1:
        yield from ["", *(settings if differing else ["no setting differs"])]
    rows: list[tuple[str, ...]] = [("metric", "run", "last", "at step", "best", "at step", "")]
    problem = describe_other_samples(runs)
    for metric, values in compared_metrics(runs).items():
        winner = None if problem else best_run(metric, values)
        for number, (name, value) in enumerate(zip(names, values, strict=True)):
            figures = [text for point in value or () for text in (f"{point.value:.4g}", str(point.step))]
            rows.append((metric, name, *(figures or [NONE] * 4), "*" if number == winner else ""))
    if len(rows) > 1:
        yield from ["", *aligned(rows)]
    if problem:
        yield from ["", f"warning: {problem}"]


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as lines of a table; a first cell that is that of the row above is left out."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for above, row in pairwise([[""], *cells]):
        shown = ["" if row[0] == above[0] else row[0], *row[1:]]
        yield "  ".join(cell.ljust(width) for cell, width in zip(shown, widths, strict=True)).rstrip()


def clipped(text: str) -> str:
    """Return a text of at most MAX_VALUE characters."""
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 2]} …"


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
