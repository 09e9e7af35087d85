"""Compare runs: the settings that differ, the last and the best of each metric, curves, samples side by side.

python -m tools.compare_runs runs/a runs/b ... [--output comparison.html]

The page is one file, with its pictures. It reads what the runs have written so far, also of those that still train.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from tools.compare_runs.page import write_page
from tools.compare_runs.recorded_runs import Row, describe_other_samples, read_runs, tables
from utils.cli import ArgumentParser, OnlyOnce, run_entry_point
from utils.text import printable


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


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
