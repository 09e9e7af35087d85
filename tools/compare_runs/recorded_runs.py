"""Runs as their folders have them, and the differences between them: settings, metrics, validation samples."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from configs.load import config_from_dict, settings_by_key
from utils.errors import ConfigError
from utils.run_figures import METRICS_FILE, Point, best, curves, read_rows
from utils.strict_json import read_json
from utils.yaml_file import read_yaml, shortened

SETTINGS_FILE = "config.yaml"
REAL = ("source", "target", "real")  # pictures that are the same at each step
NONE = "-"  # in place of what a run does not have


@dataclass(frozen=True)
class RecordedRun:
    """The files of a run, read; what an earlier version did not write, or a killed run could not, is missing.

    name: distinguishes it from the others. settings: by `section.key`. state: the content of state.json.
    records: those of metrics.jsonl. rows: those of the page of validation samples.
    """

    name: str
    folder: Path
    settings: Mapping[str, object]
    state: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    rows: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, folder: Path, name: str) -> Self:
        """Read the folder of a run; raise ConfigError where it is not that of a run."""
        if not any((folder / file).is_file() for file in (SETTINGS_FILE, METRICS_FILE)):
            found = f"neither {SETTINGS_FILE} nor {METRICS_FILE} is in it" if folder.is_dir() else "no such folder"
            raise ConfigError(f"{folder}: no run, {found}; name folders of runs, as runs/demo")
        settings, state = dict[str, object](), dict[str, Any]()
        with suppress(ConfigError, OSError):  # of a later version, or not written on a full disk
            settings = settings_by_key(config_from_dict(read_yaml(folder / SETTINGS_FILE), str(folder)))
        with suppress(ValueError, TypeError, OSError):
            state = dict(read_json((folder / "state.json").read_text(encoding="utf-8")))
        rows = [row for row in read_rows(folder / "web/rows.jsonl") if "translated" in row.get("images", ())]
        return cls(name, folder, settings, state, read_rows(folder / METRICS_FILE), rows)

    @cached_property
    def curves(self) -> dict[str, list[Point]]:
        """The recorded figures by their tags."""
        return curves(self.records)

    @property
    def metrics(self) -> dict[str, tuple[Point, Point]]:
        """The last and the best of each metric of the validations by its name: l1; BtoA/swd of the way back."""
        found = {tag: points for tag, points in self.curves.items() if tag.startswith("validation")}
        return {t.removeprefix("validation").lstrip("/_"): (points[-1], best(t, points)) for t, points in found.items()}

    @property
    def validated_on(self) -> str:
        """The split of the latest validation, and how many of its samples are measured; empty without one."""
        splits = [record["split"] for record in self.records if "split" in record]
        return f"{splits[-1]}, metrics.n_samples={self.settings.get('metrics.n_samples', '?')}" if splits else ""

    @property
    def status(self) -> str:
        """How far the run has come, and how it ended."""
        step = self.state.get("step", max((record["step"] for record in self.records), default=0))
        reason = self.state.get("reason") or self.state.get("signal")
        return f"{self.state.get('state', 'without state.json')} at step {step}" + (f": {reason}" if reason else "")

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
    folders = list({folder.expanduser().resolve(): folder.expanduser() for folder in folders}.values())
    names = [folder.resolve().name for folder in folders]
    labels = [str(path) if names.count(name) > 1 else name for path, name in zip(folders, names, strict=True)]
    return [RecordedRun.read(*pair) for pair in zip(folders, labels, strict=True)]


def differing_settings(runs: Sequence[RecordedRun]) -> dict[str, list[str]]:
    """Return the values of the settings that differ, in the order of the runs."""
    keys = dict.fromkeys(key for run in runs for key in run.settings if key not in ("run.name", "run.root"))
    texts = {key: [shortened(run.settings[key]) if run.settings else NONE for run in runs] for key in keys}
    return {key: values for key, values in texts.items() if len({*values} - {NONE}) > 1}


def compared_metrics(runs: Sequence[RecordedRun]) -> dict[str, list[tuple[Point, Point] | None]]:
    """Return the last and the best of each metric, in the order of the runs; None of a run that does not have it."""
    names = dict.fromkeys(name for run in runs for name in run.metrics)
    return {name: [run.metrics.get(name) for run in runs] for name in names}


def best_run(metric: str, values: Sequence[tuple[Point, Point] | None]) -> int | None:
    """Return the number of the run whose best is the best, None where fewer than two have the metric."""
    bests = {number: value[1] for number, value in enumerate(values) if value}
    winner = best(metric, bests.values()) if len(bests) > 1 else None
    return next((number for number, point in bests.items() if point == winner), None)


def describe_other_samples(runs: Sequence[RecordedRun]) -> str:
    """Return why the metrics of the runs cannot be compared; empty where they can be, as far as the files show."""
    measured = [run for run in runs if run.validated_on]
    shown = {frozenset(run.samples) for run in measured if run.samples}
    if len({run.validated_on for run in measured}) < 2 and len(shown) < 2:
        return ""
    texts = [f"{run.name} on {run.validated_on}" for run in measured]
    return f"metrics cannot be compared, since the validation samples are not the same: {'; '.join(texts)}"
