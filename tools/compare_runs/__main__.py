"""Compare runs: the settings that differ, the last and the best of each metric, curves, samples side by side.

python -m tools.compare_runs runs/a runs/b ... [--output comparison.html]

The page is one file, with its pictures. It reads what the runs have written so far, also of those that still train.
"""

import base64
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from tools.compare_runs.recorded_runs import REAL, RecordedRun, Row, describe_other_samples, read_runs, tables
from utils.atomic_file import replacing
from utils.cli import ArgumentParser, OnlyOnce, run_entry_point
from utils.gallery import page_template
from utils.text import printable

MAX_SIDE = 512  # pixels of a picture
MAX_BYTES = 2**17  # of a file whose pixels are kept as they are
MAX_POINTS = 400  # of a curve


def main(argv: Sequence[str]) -> None:
    """Print the comparison, and write the page."""
    parser = ArgumentParser(description="Compare runs: settings, metrics, curves and samples.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run, as runs/demo")
    page_help = "the page; default: comparison.html"
    parser.add_argument("--output", type=Path, action=OnlyOnce, metavar="FILE", help=page_help)
    arguments = parser.parse_args(argv)
    runs, output = read_runs(arguments.runs), arguments.output or Path("comparison.html")
    compared, problem = tables(runs), describe_other_samples(runs)
    for rows in compared.values():
        sys.stdout.write(f"{aligned(rows)}\n\n")
    if problem:
        sys.stdout.write(f"warning: {problem}\n\n")
    write_page(output, runs, compared, problem)
    sys.stdout.write(f"wrote {output}\n")


def aligned(rows: Sequence[Row]) -> str:
    """Return a table as lines of text."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def write_page(path: Path, runs: Sequence[RecordedRun], tables: Mapping[str, Sequence[Row]], problem: str) -> None:
    """Write the page atomically. tables: by their titles. problem: why the runs cannot be compared, or empty."""
    tags = dict.fromkeys(tag for run in runs for tag in run.curves)
    page = page_template(Path(__file__).with_name("page.html")).render(
        runs=runs,
        problem=problem,
        tables=tables,
        charts={tag: [thinned(run.curves.get(tag, [])) for run in runs] for tag in tags},
        samples=samples(runs),
    )
    with replacing(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")


def thinned(points: Sequence[Any]) -> list[Any]:
    """Return at most MAX_POINTS of some points at even distances, and the last."""
    return [*points[: -1 : -(-len(points) // MAX_POINTS) or 1], *points[-1:]]


def samples(runs: Sequence[RecordedRun]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return each sample of the latest validations: its name, and captions with pictures, the real ones first."""
    found = []
    for key in dict.fromkeys(key for run in runs for key in run.samples):
        having = [(run, run.samples[key]) for run in runs if key in run.samples]
        first, row = having[0]
        files = [(kind, first, row["images"][kind]) for kind in REAL if kind in row["images"]]
        files += [(f"{run.name}, step {row['step']}", run, row["images"]["translated"]) for run, row in having]
        found.append((key[0], [(caption, embedded(run.picture(file))) for caption, run, file in files]))
    return found


def embedded(content: bytes) -> str:
    """Return a PNG as the address of an <img>, a large one smaller; empty where it cannot be read."""
    with suppress(OSError, SyntaxError, ValueError), Image.open(BytesIO(content), formats=["PNG"]) as image:
        image.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.LANCZOS)
        image.save(smaller := BytesIO(), "WEBP", lossless=len(content) <= MAX_BYTES, quality=90)
        return f"data:image/webp;base64,{base64.b64encode(smaller.getvalue()).decode()}"
    return ""


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
