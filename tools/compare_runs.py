"""Compare runs: the settings that differ, the last and the best of each metric, curves, samples side by side.

python -m tools.compare_runs runs/a runs/b ... [--output comparison.html]

The page is one file, with its pictures. It reads what the runs have written so far, also of those that still train.
"""

import base64
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, Self

from PIL import Image

from configs.load import config_from_dict, settings_by_key
from utils.atomic_file import replacing
from utils.cli import ArgumentParser, OnlyOnce, run_entry_point
from utils.errors import ConfigError
from utils.gallery import page_template
from utils.paths import expanded
from utils.run_figures import METRICS_FILE, Point, best, curves, read_rows, read_sample_rows
from utils.strict_json import read_json
from utils.text import exact, printable
from utils.yaml_file import read_yaml, shortened

MAX_SIDE = 512  # pixels of a picture
MAX_BYTES = 2**17  # of a file whose pixels are kept as they are
MAX_POINTS = 400  # of a curve
REAL = ("source", "target", "real")  # pictures that are the same at each step
NONE = "-"  # in place of what a run does not have
N_SAMPLES = ", metrics.n_samples="

Row = tuple[str, ...]
"""Cells of a table; those of the first column are empty where they are as in the row above."""


@dataclass(frozen=True)
class RecordedRun:
    """The files of a run, read; what an earlier version did not write, or a killed run could not, is missing.

    name: distinguishes it from the others. settings: by `section.key`, with the weights of the losses that its program
        registered, as registered_losses.NAME. problem: why there are none, or empty.
    state: the content of state.json. records: those of metrics.jsonl. rows: those of the page of validation samples.
    """

    name: str
    folder: Path
    settings: Mapping[str, object]
    problem: str
    state: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    rows: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, folder: Path, name: str) -> Self:
        """Read the folder of a run; raise ConfigError where it is not that of a run."""
        if not any((folder / file).is_file() for file in ("config.yaml", METRICS_FILE)):
            found = f"neither config.yaml nor {METRICS_FILE} is in it" if folder.is_dir() else "no such folder"
            raise ConfigError(f"{folder}: no run, {found}; name folders of runs, as runs/demo")
        settings, problem, state, path = dict[str, object](), "", dict[str, Any](), folder / "config.yaml"
        try:
            settings = settings_by_key(config_from_dict(read_yaml(path), str(path)))
        except (ConfigError, OSError) as error:  # of a later version, or not written on a full disk
            problem = f"settings of {name} are not compared: {str(error.args[-1]).partition(';')[0]}"
        with suppress(ValueError, TypeError, OSError):
            state = dict(read_json((folder / "state.json").read_text(encoding="utf-8")))
            losses = dict(state.get("registered_losses", {})) if settings else {}
            settings |= {f"registered_losses.{loss}": exact(float(weight)) for loss, weight in losses.items()}
        records, rows = read_rows(folder / METRICS_FILE), read_sample_rows(folder / "web/rows.jsonl")
        return cls(name, folder, settings, problem, state, records, rows)

    @cached_property
    def curves(self) -> dict[str, list[Point]]:
        """The recorded figures by their tags."""
        return curves(self.records)

    @cached_property
    def metrics(self) -> dict[str, tuple[Point, Point]]:
        """The last and the best of each metric of the validations by its name: l1; BtoA/swd of the way back."""
        found = {tag: points for tag, points in self.curves.items() if tag.startswith("validation")}
        return {t.removeprefix("validation").lstrip("/_"): (points[-1], best(t, points)) for t, points in found.items()}

    @property
    def validated_on(self) -> tuple[str, ...]:
        """The split of the latest validation, and how many of its samples are measured or "?"; empty without one."""
        splits = [str(record["split"]) for record in self.records if "split" in record]
        return (splits[-1], str(self.settings.get("metrics.n_samples", "?"))) if splits else ()

    @property
    def status(self) -> str:
        """How far the run has come, and how it ended."""
        step = self.state.get("step", max((record["step"] for record in self.records), default=0))
        reason = self.state.get("reason") or self.state.get("signal")
        return f"{self.state.get('state', 'without a readable state.json')} at step {step}" + (
            f": {reason}" if reason else ""
        )

    @cached_property
    def samples(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        """The rows of the latest validation, by the names of the samples and digests of their files."""
        latest = [row for row in self.rows if row["step"] == self.rows[-1]["step"]]
        return {(row["name"], self._digest(row["images"])): row for row in latest}

    def picture(self, file: str) -> bytes:
        """Return a picture of the page; nothing where it is missing or, in a forged run, outside of its folder."""
        path = (self.folder / "web" / file).resolve()
        is_ours = path.is_relative_to((self.folder / "web").resolve()) and path.is_file()
        return path.read_bytes() if is_ours else b""

    def _digest(self, images: Mapping[str, str]) -> str:
        files = [self.picture(images[kind]) for kind in REAL if kind in images]
        return hashlib.sha256(b"".join(files)).hexdigest()


def read_runs(folders: Sequence[Path]) -> list[RecordedRun]:
    """Return the runs in some folders, each once; those of the same name are called by their paths.

    Raises:
        ConfigError: a folder is not that of a run.
    """
    folders = list({folder.resolve(): folder for folder in (expanded(folder, "a run") for folder in folders)}.values())
    names = [folder.resolve().name for folder in folders]
    labels = [str(path) if names.count(name) > 1 else name for path, name in zip(folders, names, strict=True)]
    return [RecordedRun.read(*pair) for pair in zip(folders, labels, strict=True)]


def tables(runs: Sequence[RecordedRun]) -> dict[str, list[Row]]:
    """Return the tables of a comparison by their titles, each with its head, without those that have nothing more."""
    states = [(run.name, run.status, N_SAMPLES.join(run.validated_on) or NONE) for run in runs]
    metrics_head = ("metric", "run", "last", "at step", "best", "at step", "best run")
    found: dict[str, list[Row]] = {
        "Runs": [("run", "state", "validated on"), *states],
        "Settings that differ": [("setting", "run", "value"), *differing_settings(runs)],
        "Metrics of the validation samples": [metrics_head, *compared_metrics(runs)],
    }
    return {title: rows for title, rows in found.items() if len(rows) > 1}


def differing_settings(runs: Sequence[RecordedRun]) -> Iterator[Row]:
    """Yield the settings that differ, with the value of each run."""
    for key in dict.fromkeys(key for run in runs for key in run.settings if key not in ("run.name", "run.root")):
        # what settings lack is a loss that the run has not registered, if that is known
        values = [shortened(run.settings.get(key, "0" if run.settings and run.state else NONE)) for run in runs]
        if len({*values} - {NONE}) > 1:
            yield from zip([key, *[""] * len(values)], (run.name for run in runs), values, strict=False)


def compared_metrics(runs: Sequence[RecordedRun]) -> Iterator[Row]:
    """Yield the last and the best of each metric of each run, with a star where it is the best of several runs."""
    are_comparable = not describe_other_samples(runs)
    for metric in dict.fromkeys(name for run in runs for name in run.metrics):
        bests = [run.metrics[metric][1] for run in runs if metric in run.metrics]
        winner = best(metric, bests) if are_comparable and len(bests) > 1 else None
        for number, run in enumerate(runs):
            last_and_best = run.metrics.get(metric, ())
            figures = [text for point in last_and_best for text in (f"{point.value:.4g}", str(point.step))]
            star = "*" if winner and winner.value in [point.value for point in last_and_best[1:]] else ""
            yield ("" if number else metric, run.name, *(figures or [NONE] * 4), star)


def describe_other_samples(runs: Sequence[RecordedRun]) -> str:
    """Return why the metrics of the runs cannot be compared; empty where they can be, as far as the files show."""
    measured = [run for run in runs if run.validated_on]
    shown = {frozenset(run.samples) for run in measured if run.samples}
    splits, counts = ({run.validated_on[n] for run in measured} - {"?"} for n in range(2))
    texts = [f"{run.name} on {N_SAMPLES.join(run.validated_on)}" for run in measured]
    if len(splits) < 2 and len(counts) < 2:
        if len(shown) < 2:
            return ""
        texts.append("names or pixels differ, by run.seed, a setting of data, or files that have changed")
    return f"metrics cannot be compared, since the validation samples are not the same: {'; '.join(texts)}"


def aligned(rows: Sequence[Row]) -> str:
    """Return a table as lines of text."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def write_page(path: Path, runs: Sequence[RecordedRun], compared: Mapping[str, list[Row]], problems: list[str]) -> None:
    """Write the page atomically. compared: the tables. problems: what cannot be compared, and why."""
    tags = dict.fromkeys(tag for run in runs for tag in run.curves)
    page = page_template(Path(__file__).with_suffix(".html")).render(
        runs=runs,
        problems=problems,
        tables=compared,
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


def main(argv: Sequence[str]) -> None:
    """Print the comparison, and write the page."""
    parser = ArgumentParser(description="Compare runs: settings, metrics, curves and samples.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run, as runs/demo")
    parser.add_argument("--output", type=Path, action=OnlyOnce, metavar="FILE", help="page; default: comparison.html")
    arguments = parser.parse_args(argv)
    runs, output = read_runs(arguments.runs), arguments.output or Path("comparison.html")
    if output.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"--output {output}: is no name of a page; it ends in .html, as comparison.html")
    if output.exists() and not output.is_file():
        raise ConfigError(f"--output {output}: is no file that could be replaced; name a file, as comparison.html")
    compared, problems = tables(runs), [*(run.problem for run in runs), describe_other_samples(runs)]
    for rows in compared.values():
        sys.stdout.write(f"{aligned(rows)}\n\n")
    for problem in filter(None, problems):
        sys.stdout.write(f"warning: {printable(problem)}\n\n")
    write_page(output, runs, compared, problems)
    sys.stdout.write(f"wrote {printable(str(output))}\n")


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
