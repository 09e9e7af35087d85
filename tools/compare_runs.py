"""Compare runs in one table with their state, the settings that differ, and the best value of each metric.

    python -m tools.compare_runs runs/a runs/b ... [--csv FILE]

Runs that differ only in `run.seed` share a row, with mean ± standard deviation. A star marks the best row of a metric.
To see curves and pictures, run tensorboard --logdir runs.
"""

import csv
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from configs.load import config_from_dict
from configs.schema import settings_by_key
from utils.cli import ArgumentParser, run_entry_point
from utils.errors import ConfigError
from utils.files import expanded
from utils.plain_values import read_json
from utils.run_figures import METRICS_FILE, Point, best, curves, read_rows
from utils.text import printable
from utils.yaml_file import read_yaml, shortened

NOT_COMPARED = ("run.name", "run.root", "run.seed")
MISSING = "-"


@dataclass(frozen=True)
class RecordedRun:
    """What a run has recorded so far. Files can be missing if the run was killed, or if an older version wrote it.

    settings: Values as text, by `section.key`, and weights of registered losses. Empty if config.yaml is unreadable.
    status: State and step, such as "finished at step 1000".
    validated_on: Validation split and number of samples.
    metrics: Best point of each validation metric, by metric name.
    """

    name: str
    settings: Mapping[str, str]
    status: str
    validated_on: str
    metrics: Mapping[str, Point]

    @classmethod
    def read(cls, folder: Path, problems: list[str]) -> Self:
        """Read a run. Raise ConfigError if `folder` has no run. Add a line to `problems` if settings are damaged."""
        file = folder / "config.yaml"
        if not file.is_file() and not (folder / METRICS_FILE).is_file():
            raise ConfigError(f"{folder}: is not the folder of a run. Name a folder such as runs/demo.")
        records, state, settings = read_rows(folder / METRICS_FILE), dict[str, Any](), dict[str, str]()
        with suppress(ValueError, TypeError, OSError):
            state = dict(read_json((folder / "state.json").read_text(encoding="utf-8")))
        try:
            values = settings_by_key(config_from_dict(read_yaml(file), str(file)))
            values["registered_losses"] = state.get("registered_losses") or MISSING
            settings = {key: shortened(value) for key, value in values.items() if key not in NOT_COMPARED}
        except (ConfigError, OSError) as error:
            problems.append(f"{folder}: unreadable settings are not compared: {str(error.args[-1]).partition(';')[0]}")
        splits = [record["split"] for record in records if "split" in record]
        validated_on = f"{splits[-1]}, {settings.get('metrics.n_samples', '?')}" if splits else MISSING
        step = state.get("step", max((record["step"] for record in records), default=0))
        measured = {tag: points for tag, points in curves(records).items() if tag.startswith("validation")}
        metrics = {tag.removeprefix("validation/"): best(tag, points) for tag, points in measured.items()}
        return cls(str(folder), settings, f"{state.get('state', 'unknown')} at step {step}", validated_on, metrics)


def comparison(runs: Sequence[RecordedRun]) -> list[list[str]]:
    """Return the table: a header, then one row for each group of runs that differ only in the seed."""
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    differing = [key for key in keys if len({run.settings.get(key) for run in runs if run.settings}) > 1]
    values = {run.name: tuple(run.settings.get(key, MISSING) for key in differing) for run in runs}
    groups: dict[object, list[RecordedRun]] = {}
    for run in runs:  # a run without readable settings is a group of its own
        groups.setdefault(values[run.name] if run.settings else run.name, []).append(run)
    metrics = [*dict.fromkeys(name for run in runs for name in run.metrics)]
    columns = [_metric_column(name, [*groups.values()], marks_best=are_comparable(runs, name)) for name in metrics]
    table = [["runs", "state", "validated on", *differing, *metrics]]
    for group, *cells in zip(groups.values(), *columns, strict=True):
        texts = zip(*((run.name, run.status, run.validated_on) for run in group), strict=True)
        table.append([*("; ".join(dict.fromkeys(each)) for each in texts), *values[group[0].name], *cells])
    return table


def are_comparable(runs: Sequence[RecordedRun], metric: str = "") -> bool:
    """Return whether all runs were validated on the same samples, and computed `metric` with the same network."""
    networks = {run.settings.get("metrics.features") for run in runs if metric in {"fid", "kid"} & {*run.metrics}}
    return len({run.validated_on for run in runs if run.metrics}) <= 1 and len(networks) <= 1


def _metric_column(name: str, groups: Sequence[Sequence[RecordedRun]], *, marks_best: bool) -> list[str]:
    """Return one cell per group of runs: the mean of their best values of a metric. For a single run, add the step."""
    points = [[run.metrics[name] for run in group if name in run.metrics] for group in groups]
    means = {n: Point(n, statistics.fmean(point.value for point in found)) for n, found in enumerate(points) if found}
    winner = best(name, means.values()).step if marks_best and len(means) > 1 else None
    cells = [MISSING] * len(points)
    for number, mean in means.items():
        steps, values = zip(*((point.step, point.value) for point in points[number]), strict=True)
        spread = f" ± {statistics.stdev(values):.2g}" if len(values) > 1 else f" @{steps[0]}"
        cells[number] = f"{mean.value:.4g}{spread}{'*' if number == winner else ''}"
    return cells


def main(argv: Sequence[str]) -> None:
    """Print the table. With --csv, also write the table to a file."""
    parser = ArgumentParser(description="Compare runs: state, settings that differ, best value of each metric.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run, such as runs/demo")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write the table to this file")
    arguments = parser.parse_args(argv)
    folders = (expanded(folder, "RUN") for folder in arguments.runs)
    problems: list[str] = []
    runs = [RecordedRun.read(folder, problems) for folder in {folder.resolve(): folder for folder in folders}.values()]
    table = comparison(runs)
    widths = [max(len(printable(cell)) for cell in column) for column in zip(*table, strict=True)]
    for row in table:
        line = "  ".join(printable(cell).ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(f"{line.rstrip()}\n")
    if not are_comparable(runs):
        sys.stdout.write("warning: the runs were validated on different samples. Their metrics are not comparable.\n")
    for problem in problems:
        sys.stdout.write(f"warning: {printable(problem)}\n")
    if arguments.csv:
        with arguments.csv.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(table)


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
