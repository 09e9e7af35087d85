"""The folder of a run: config.yaml, log.txt, TensorBoard's events, checkpoints."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from utils.log import logger


def archive_run(run_folder: Path) -> Path | None:
    """Rename a run, so that a new one can take its name and nothing is lost; return its new place, None without a run.

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


@contextmanager
def log_file(path: Path | None) -> Iterator[None]:
    """Append the messages within to a file too, each with its time; None writes no file."""
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
