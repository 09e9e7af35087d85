"""The folder of a run: its lock, config.yaml, and what happens to a run that is there already."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from configs.load import config_to_yaml
from configs.schema import Config
from utils.checkpoint_folder import archive_damaged, remove_incomplete_files
from utils.errors import ConfigError, UserError
from utils.files import locked, path_in_errors
from utils.log import logger

LOG_FILE, STATE_FILE, SETTINGS_FILE = "log.txt", "state.json", "config.yaml"


class RunLockedError(UserError):
    """Another process trains in the folder."""


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a run: a file next to its folder, which the system releases when the process ends.

    Raises:
        RunLockedError: Another process holds the lock.
        OSError: The folder above cannot be made or written to.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    refusal = f"{folder}: another process is training this run: wait for it, or choose another run.name"
    with locked(folder.with_name(f".{folder.name}.lock"), RunLockedError(refusal)):
        yield


@contextmanager
def watched(folder: Path) -> Iterator[Callable[[], None]]:
    """Yield a function that raises UserError once the folder of a run was removed.

    Files that are written later would create the folder again, without log and settings.
    """
    if os.name == "nt":  # Windows removes no folder of open files
        yield lambda: None
        return
    descriptor = os.open(folder, os.O_RDONLY)  # while it is open, no other folder can have its number

    def check() -> None:
        if not folder.is_dir() or not os.path.samestat(os.fstat(descriptor), folder.stat()):
            raise UserError(f"{folder}: the folder was removed while the run trained. Start the run again.")

    try:
        yield check
    finally:
        os.close(descriptor)


def write_settings(folder: Path, config: Config) -> None:
    """Write config.yaml for people to read. A checkpoint holds the settings too, so a failing disk ends no run."""
    path = folder / SETTINGS_FILE
    try:
        with path_in_errors(path):
            path.write_text(config_to_yaml(config), encoding="utf-8")
    except OSError as error:
        logger.warning("not written: %s", error)


def prepare_folder(folder: Path, damaged: Sequence[Path], *, continues: bool) -> None:
    """Make the folder of a run, and remove incomplete files of a killed run from it.

    damaged: Checkpoints of the run that could not be read. They are renamed.
    continues: Whether the run continues the run in the folder. Otherwise that run is archived.
    """
    try:
        archived = None if continues else archive_run(folder)
        folder.mkdir(parents=True, exist_ok=True)
        remove_incomplete_files(folder)
        archive_damaged(list(damaged) if continues else [])
    except OSError as error:
        raise ConfigError(f"run.root, run.name: cannot make or write to {folder}: {error.strerror}") from error
    if archived:
        logger.info("the run that was in %s is kept in %s", folder, archived)


def archive_run(folder: Path) -> Path | None:
    """Rename a run, so that a new run can take its name. Return its new place, or None if there is no run.

    Raises:
        FileExistsError: The folder holds files, but no run.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    if not any((folder / name).exists() for name in (SETTINGS_FILE, LOG_FILE, STATE_FILE)):
        raise FileExistsError(17, "it holds files that are not of a run", str(folder))
    number = 1
    while (aside := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(aside)
    return aside
