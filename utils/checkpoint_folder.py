"""The checkpoints of a run: their names, the newest that is whole, which are kept."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from utils import instants
from utils.atomic_file import temporary_path
from utils.checkpoint import (
    CheckpointError,
    DamagedCheckpointError,
    check_file,
    load_checkpoint,
    manifest_path,
)

CLOCKS_DIFFER_S = 60.0  # between this machine and one that serves files
_FILE_NAME = re.compile(r"checkpoint-(\d{8,})\.pt")


@dataclass(frozen=True)
class LoadedCheckpoint:
    """A checkpoint that was read. damaged: newer ones that could not be."""

    path: Path
    state: dict[str, Any]
    damaged: list[Path] = field(default_factory=list)


def checkpoint_path(run_folder: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return run_folder / f"checkpoint-{step:08d}.pt"


def list_checkpoints(run_folder: Path) -> list[Path]:
    """The checkpoints of a run by rising step, never by their times."""
    steps = {path: match for path in run_folder.glob("checkpoint-*.pt") if (match := _FILE_NAME.fullmatch(path.name))}
    return sorted(steps, key=lambda path: int(steps[path][1]))


def newest_run(root: Path) -> Path | None:
    """The run below `root` whose newest checkpoint was written last; None where there is none.

    Raises:
        CheckpointError: the clock has been set back since, so that it cannot be told which of several is the newest.
    """
    written: dict[Path, float] = {}
    for path in root.glob("*/checkpoint-*.pt"):
        written[path.parent] = max(path.stat().st_mtime, written.get(path.parent, 0))
    newest = max(written, key=lambda folder: written[folder], default=None)
    if newest and len(written) > 1 and written[newest] > time.time() + CLOCKS_DIFFER_S:
        raise CheckpointError(
            f"{newest}: its checkpoints are of the future, so the clock cannot tell which run is the newest: name one "
            "with --checkpoint"
        )
    return newest


def latest_valid(run_folder: Path, warn: Callable[[str], object]) -> LoadedCheckpoint | None:
    """The whole checkpoint of the highest step, or None where there is no checkpoint.

    warn: is told of each that is damaged and passed over.

    Raises:
        CheckpointError: all are damaged, or the newest whole one is of a later format.
    """
    damaged: list[Path] = []
    for path in reversed(list_checkpoints(run_folder)):
        try:
            return LoadedCheckpoint(path, load_checkpoint(path), damaged)
        except DamagedCheckpointError as error:
            warn(f"passed over {error}")
            damaged.append(path)
    if damaged:
        raise CheckpointError(
            f"{run_folder}: none of its {len(damaged)} checkpoints is whole: start anew with --resume never, which "
            "keeps them"
        )
    return None


def latest_file(run_folder: Path, warn: Callable[[str], object]) -> Path | None:
    """As `latest_valid`, but nothing is read of the file beyond what its manifest says of it."""
    files = list_checkpoints(run_folder)
    for path in reversed(files):
        try:
            check_file(path)
            return path
        except DamagedCheckpointError as error:
            warn(f"passed over {error}")
    if files:
        raise CheckpointError(f"{run_folder}: none of its {len(files)} checkpoints is whole")
    return None


def archive_damaged(damaged: list[Path]) -> None:
    """Rename damaged checkpoints, so that they count no longer among those to keep, and none is written over."""
    for path in damaged:
        manifest_path(path).unlink(missing_ok=True)
        path.rename(path.with_name(f"{path.name}.damaged"))


def sweep(run_folder: Path) -> None:
    """Delete what a killed run left of files that it was writing, and manifests whose checkpoint is gone."""
    for path in run_folder.glob(temporary_path(Path("*")).name):
        path.unlink(missing_ok=True)
    for manifest in run_folder.glob("checkpoint-*.pt.json"):
        if not manifest.with_suffix("").is_file():
            manifest.unlink(missing_ok=True)


def remove_old_checkpoints(run_folder: Path, keep: int) -> None:
    """Delete all but the newest `keep` checkpoints, each after its manifest; 0 keeps all."""
    for path in list_checkpoints(run_folder)[:-keep] if keep else []:
        manifest_path(path).unlink(missing_ok=True)
        instants.reached("removed", manifest_path(path))
        path.unlink()
