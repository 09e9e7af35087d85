"""The disk space that a run's checkpoints need, checked before the first step."""

import shutil
from contextlib import suppress
from pathlib import Path

from training.best import BEST
from training.run import Training
from utils.checkpoint_folder import list_checkpoints
from utils.errors import ConfigError


def describe_shortage(training: Training, *, continues: bool) -> list[str]:
    """Return a warning if the disk is too small for all checkpoints of the run.

    continues: Whether the checkpoints in the run's folder belong to the run, which deletes old ones.

    Raises:
        ConfigError: Not a single checkpoint fits.
    """
    folder, n_bytes, free = training.folder, training.n_bytes, free_bytes(training.folder)
    if free is None or training.loop.step >= training.total_steps or not training.world.is_main:
        return []
    if free < n_bytes:
        raise ConfigError(
            f"{folder}: a checkpoint takes about {size(n_bytes)}, and {size(free)} is free there: free space, or set "
            "run.root to a folder on another disk"
        )
    needed = count_more_files(training, continues=continues) * n_bytes
    if free >= needed:
        return []
    return [
        f"warning        the checkpoints will take about {size(needed)} more, and {size(free)} is free in {folder}: "
        f"free space, or change checkpoint.keep={training.config.checkpoint.keep}"
    ]


def count_more_files(training: Training, *, continues: bool) -> int:
    """Return the largest number of checkpoint files that will be added, including one that is being written."""
    settings, last = training.config.checkpoint, training.total_steps
    n_written = (last - 1) // settings.every_steps - training.loop.step // settings.every_steps + 1
    n_present = len(list_checkpoints(training.folder)) if continues else 0
    n_more = min(n_written, max(settings.keep - n_present, 0) + 1) if settings.keep else n_written
    return n_more + int(training.best.is_kept and not (continues and (training.folder / BEST).is_file()))


def free_bytes(folder: Path) -> int | None:
    """Return the free bytes of a folder that may not exist yet; None if its file system does not count them."""
    for place in (folder, *folder.absolute().parents):
        with suppress(OSError):
            disk = shutil.disk_usage(place)
            return disk.free if disk.total else None
    return None


def size(n_bytes: int) -> str:
    """Return a number of bytes as text, in MiB or GiB."""
    return f"{n_bytes / 2**30:.2f} GiB" if n_bytes >= 2**30 / 10 else f"{n_bytes / 2**20:.1f} MiB"
