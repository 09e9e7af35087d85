"""Figures as JSON, with the machine they were measured on, and as a table."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from bench.measure import Surroundings

RESULTS = Path(__file__).parent / "results"


def write_report(name: str, device: torch.device, rows: Sequence[dict[str, Any]], results: Path = RESULTS) -> Path:
    """Write RESULTS/NAME_DEVICE.json, and print the rows as a Markdown table with the columns of the first row.

    Earlier rows of the same device, versions and commit stay in the file, before these.
    """
    path = results / f"{name}_{device.type}.json"
    if not rows:  # nothing fitted the device
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    surroundings = asdict(Surroundings.here(device))
    earlier = json.loads(path.read_text()) if path.is_file() else {}
    if earlier.get("surroundings") == surroundings:
        new = [_identity(row) for row in rows]
        rows = [*(row for row in earlier["rows"] if _identity(row) not in new), *rows]
    path.write_text(json.dumps({"surroundings": surroundings, "rows": list(rows)}, indent=2) + "\n")
    print(
        f"\n{name}: {surroundings['device']}, torch {surroundings['torch_version']}, commit {surroundings['commit']}\n"
    )
    print(markdown_table(rows))
    return path


def _identity(row: dict[str, Any]) -> list[Any]:
    """Return the values that identify a row: strings and integers, not the figures."""
    return [value for value in row.values() if isinstance(value, str | int)]


def markdown_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows of equal keys as a Markdown table."""
    columns = list(rows[0])
    lines = [columns, ["---"] * len(columns), *([_cell(row[column]) for column in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(value: object) -> str:
    if isinstance(value, list):
        return _mean_and_range([float(number) for number in value])
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


def _mean_and_range(numbers: Sequence[float]) -> str:
    """Return the mean and half of the range of the same figure of several runs."""
    if len(numbers) < 2:
        return "".join(map(_cell, numbers))
    return f"{sum(numbers) / len(numbers):.3g} ± {(max(numbers) - min(numbers)) / 2:.1g}"
