"""Records of a run, a line of JSON each, which a run that resumes from an earlier step continues."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from utils.atomic_file import replacing
from utils.log import logger
from utils.strict_json import read_json, strict_json


class JsonLines:
    """Appends records with their step. Those of `first_step` and later, from an interrupted run, are removed first.

    Numbers that are not finite become null.
    rows: the records of the file, where it `keeps_rows`.
    """

    def __init__(self, path: Path, first_step: int, *, keeps_rows: bool = False) -> None:
        self._path = path
        self._keeps_rows = keeps_rows
        earlier = [row for row in _read(path) if row["step"] < first_step]
        self.rows: list[dict[str, Any]] = earlier if keeps_rows else []
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(_line(row) for row in earlier)
        if path.is_file() and path.read_text(encoding="utf-8") != text:
            with replacing(path) as unfinished:
                unfinished.write_text(text, encoding="utf-8")
        self._begin = ""

    def append(self, step: int, record: Mapping[str, Any]) -> None:
        """Write one record; a disk that fails costs the record, not the run."""
        line = _line({"step": step, **record})
        if self._keeps_rows:
            self.rows.append(read_json(line))
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(self._begin + line)
            self._begin = ""
        except OSError as error:
            if not self._begin:
                logger.warning("%s: %s: records are missing there", self._path, error.strerror)
            self._begin = "\n"  # ends the line that may be incomplete


def _line(row: Mapping[str, Any]) -> str:
    return strict_json(row) + "\n"


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file, without a last line that a killed run has not finished."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            row = read_json(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            rows.append(row)
    return rows
