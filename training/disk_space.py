"""The disk space that a run's checkpoints need, checked before the first step."""

import shutil
from contextlib import suppress
from pathlib import Path

from training.best import BEST
from training.run import Training
from utils.checkpoint_folder import list_checkpoints
from utils.errors import ConfigError


def describe_shortage(training: Training, *, continues: bool) -> list[str]:
    """Return a line where the disk is too small for all checkpoints of the run; nothing where it is large enough.

    continues: whether the checkpoints in the run's folder are the run's own, of which old ones are deleted.

    Raises:
        ConfigError: not a single checkpoint fits.
    """
    folder, n_bytes = training.folder, training.n_bytes
    free = free_bytes(folder)
    is_finished = training.loop.step >= training.total_steps
    if free is None or is_finished or not training.world.is_main:
        return []
    if free < n_bytes:
        raise ConfigError(
            f"{folder}: a checkpoint takes about {size(n_bytes)}, and {size(free)} is free there: free space, or set "
            "run.root to a folder on another disk"
        )
    needed = count_more_files(training, continues=continues) * n_bytes
    if free >= needed:
        return []
    settings = training.config.checkpoint
    remedy = f"free space, or {'lower' if settings.keep else 'limit'} checkpoint.keep={settings.keep}"
    if settings.keep == 1:
        remedy = f"free space{', or set checkpoint.best=none' if training.best.is_kept else ''}"
    return [
        f"warning        the checkpoints will take about {size(needed)} more, one being written included, and "
        f"{size(free)} is free in {folder}: {remedy}"
    ]


def count_more_files(training: Training, *, continues: bool) -> int:
    """Return how many files of checkpoints there will be at most, beside those that there are.

    A checkpoint is written before the oldest one is deleted, and best.pt before the former one is replaced.
    """
    settings, step, last = training.config.checkpoint, training.loop.step, training.total_steps
    n_written = (last - 1) // settings.every_steps - step // settings.every_steps + 1
    n_present = len(list_checkpoints(training.folder)) if continues else 0
    n_most = n_present + n_written
    if settings.keep:
        n_most = min(n_most, max(settings.keep, n_present) + 1)
    has_best = continues and (training.folder / BEST).is_file()
    return max(n_most - n_present + int(training.best.is_kept and not has_best), 1)


def free_bytes(folder: Path) -> int | None:
    """Return the free bytes where a folder is or will be made; None where its file system does not count them."""
    for place in (folder, *folder.absolute().parents):
        with suppress(OSError):
            disk = shutil.disk_usage(place)
            return disk.free if disk.total else None
    return None


def size(n_bytes: int) -> str:
    """Return a number of bytes as text, in MiB or GiB."""
    return f"{n_bytes / 2**30:.2f} GiB" if n_bytes >= 2**30 / 10 else f"{n_bytes / 2**20:.1f} MiB"
