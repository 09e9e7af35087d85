"""The checkpoints of a run: names, the latest valid checkpoint, and the removal of old checkpoints."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from utils import files
from utils.checkpoint import (
    CheckpointError,
    DamagedCheckpointError,
    MissingCheckpointError,
    load_checkpoint,
    manifest_path,
)
from utils.files import temporary_path
from utils.log import logger

T = TypeVar("T")

_FILE_NAME = re.compile(r"checkpoint-(\d{8,})\.pt")


@dataclass(frozen=True)
class LoadedCheckpoint:
    """A loaded checkpoint. `damaged` lists later checkpoints that could not be read."""

    path: Path
    state: dict[str, Any]
    damaged: list[Path] = field(default_factory=list)


def checkpoint_path(run_folder: Path, step: int) -> Path:
    """Return the path of the checkpoint for a step."""
    return run_folder / f"checkpoint-{step:08d}.pt"


def list_checkpoints(run_folder: Path) -> list[Path]:
    """Return the checkpoints of a run, ordered by step and not by modification time."""
    steps = {path: match for path in run_folder.glob("checkpoint-*.pt") if (match := _FILE_NAME.fullmatch(path.name))}
    return sorted(steps, key=lambda path: int(steps[path][1]))


def latest_step(run_folder: Path) -> int:
    """Return the step in the name of a run's latest checkpoint, or 0 without a checkpoint."""
    checkpoints = list_checkpoints(run_folder)
    return int(checkpoints[-1].stem.partition("-")[2]) if checkpoints else 0


def newest_run(root: Path) -> Path | None:
    """Return the run folder in `root` with the most recently written checkpoint, or None without a checkpoint."""
    written: dict[Path, float] = {}
    for path in root.glob("*/checkpoint-*.pt"):
        with suppress(FileNotFoundError):  # a run in progress has just deleted the file
            written[path.parent] = max(path.stat().st_mtime, written.get(path.parent, 0))
    return max(written, key=lambda folder: written[folder], default=None)


def latest_valid(run_folder: Path) -> LoadedCheckpoint | None:
    """Return the latest valid checkpoint, or None if the folder has no checkpoint.

    Raise CheckpointError if all checkpoints are damaged, or if the latest undamaged checkpoint has another format.
    """
    found = read_latest(run_folder, load_checkpoint, "start again with --resume never, which does not delete them")
    return found and LoadedCheckpoint(*found)


def read_latest(run_folder: Path, read: Callable[[Path], T], remedy: str) -> tuple[Path, T, list[Path]] | None:
    """Return the path of the latest valid checkpoint, the result of `read` for it, and later damaged checkpoints.

    Return None if the folder has no checkpoint. Log a warning for each damaged checkpoint.

    Raise CheckpointError if all checkpoints are damaged, or if `read` raises it.
    """
    damaged: list[Path] = []
    seen: set[Path] = set()
    while left := [path for path in list_checkpoints(run_folder) if path not in seen]:  # a run can add files
        path = left[-1]
        seen.add(path)
        try:
            return path, read(path), damaged
        except MissingCheckpointError:
            if path.exists():  # `read` needs another file, which is missing
                raise
        except DamagedCheckpointError as error:
            logger.warning("skipped %s", error)
            damaged.append(path)
    if damaged:
        raise CheckpointError(f"{run_folder}: none of its {len(damaged)} checkpoints is valid; {remedy}")
    return None


def archive_damaged(damaged: list[Path]) -> None:
    """Rename damaged checkpoints to NAME.damaged, so that the run neither counts nor overwrites these files."""
    for path in damaged:
        manifest_path(path).unlink(missing_ok=True)
        path.replace(path.with_name(f"{path.name}.damaged"))


def remove_incomplete_files(run_folder: Path) -> None:
    """Delete incomplete files that a killed run left, and manifests without a checkpoint."""
    for path in run_folder.glob(temporary_path(Path("*")).name):
        path.unlink(missing_ok=True)
    for manifest in run_folder.glob("checkpoint-*.pt.json"):
        if not manifest.with_suffix("").is_file():
            manifest.unlink(missing_ok=True)


def remove_old_checkpoints(run_folder: Path, keep: int) -> None:
    """Delete all but the latest `keep` checkpoints, or none if `keep` is 0. Delete manifests before checkpoints."""
    for path in list_checkpoints(run_folder)[:-keep] if keep else []:
        manifest_path(path).unlink(missing_ok=True)
        files.fault_point("unlisted", path)
        path.unlink()
