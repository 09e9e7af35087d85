"""The folder of a run: config.yaml, log.txt, TensorBoard's events, checkpoints."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from utils.checkpoint import CheckpointError

CLOCKS_DIFFER_S = 60.0  # between this machine and one that serves files

logger = logging.getLogger("pairgan")


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


def set_aside(run_folder: Path) -> Path | None:
    """Rename a run, so that a new one can take its name and nothing is lost; returns where it is now, if it was.

    Raises:
        FileExistsError: the folder holds files, but no run.
    """
    if not run_folder.is_dir() or not any(run_folder.iterdir()):
        return None
    if not any((run_folder / name).exists() for name in ("config.yaml", "log.txt")):
        raise FileExistsError(17, "it holds files that are not of a run", str(run_folder))
    number = 1
    while (aside := run_folder.with_name(f"{run_folder.name}.{number}")).exists():
        number += 1
    run_folder.rename(aside)
    return aside


def log_to_console(is_main: bool) -> None:
    """Send the application's messages to standard output; processes other than the main one only warn."""
    logging.raiseExceptions = False  # a closed pipe, as of `| head`, is no fault of a message
    logger.handlers.clear()
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if is_main else logging.WARNING)


@contextmanager
def log_file(path: Path | None) -> Iterator[None]:
    """Append the messages to a file too, each with its time; nowhere where `path` is None."""
    if path is None:
        yield
        return
    handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%Y-%m-%d %H:%M:%S"))
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        with suppress(OSError):  # a full disk
            handler.close()
