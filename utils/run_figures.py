"""Functions that read a run's metrics.jsonl: records, curves, and best values."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from utils.plain_values import read_json

METRICS_FILE = "metrics.jsonl"
HIGHER_IS_BETTER = (
    *("psnr", "psnr_weighted", "psnr_shifted", "ssim", "ssim_weighted", "ssim_shifted", "ms_ssim"),
    *("pixel_accuracy", "mean_iou"),
)
"""Metrics that are better if higher. The list is a copy, because the registry of metrics imports torch."""


class Point(NamedTuple):
    """The value of a metric at a step."""

    step: int
    value: float


class Validation(NamedTuple):
    """The metrics of one validation, by name, without NaN and infinity."""

    step: int
    split: str
    figures: Mapping[str, float]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return all records with a step in a file of JSON lines. Skip damaged lines, which a killed run can leave."""
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []:
        try:
            row = read_json(line)
        except ValueError:
            continue
        if isinstance(row, dict) and type(step := row.get("step")) is int and step >= 0:
            rows.append(row)
    return rows


def last_validation(run_folder: Path, last_step: float = math.inf) -> Validation | None:
    """Return a run's last validation up to a step, or None."""
    rows = reversed(read_rows(run_folder / METRICS_FILE))
    row = next((row for row in rows if isinstance(row.get("split"), str) and row["step"] <= last_step), None)
    if row is None:
        return None
    numbers = {tag: value for tag, value in row.items() if isinstance(value, int | float)}
    figures = {tag.removeprefix("validation/"): numbers[tag] for tag in numbers if tag.startswith("validation/")}
    return Validation(row["step"], row["split"], figures)


def curves(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Point]]:
    """Return the curve of each tag, with a point for each finite number in the records."""
    found: dict[str, list[Point]] = {}
    for record in records:
        for tag, value in record.items():
            if isinstance(value, int | float) and tag != "step":
                found.setdefault(tag, []).append(Point(record["step"], value))
    return found


def best(tag: str, points: Iterable[Point]) -> Point:
    """Return the best point of a metric, or the first of equal points. A tag is, for example, validation/l1."""
    figure = tag.rpartition("/")[2]
    if figure == "sharpness":
        return min(points, key=lambda point: abs(point.value - 1))
    sign = -1 if figure in HIGHER_IS_BETTER else 1
    return min(points, key=lambda point: sign * point.value)
