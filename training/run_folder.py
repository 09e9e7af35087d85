"""The folder of a run: lock, checkpoints, log, state and free disk space. The folder of an earlier run is renamed."""

import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from logging.handlers import MemoryHandler
from pathlib import Path
from signal import Signals
from typing import Any, Literal

from configs.load import config_to_yaml
from losses import registered_record
from training.report.sinks import Progress, Sink
from training.run import Training
from training.validation import BEST
from utils.checkpoint import manifest_path, save_checkpoint
from utils.checkpoint_folder import (
    archive_damaged,
    checkpoint_path,
    latest_step,
    remove_incomplete_files,
    remove_old_checkpoints,
)
from utils.distributed import is_of_a_lost_peer
from utils.errors import ConfigError, Interrupted, UserError
from utils.files import locked, path_in_errors, replacing
from utils.log import LineFormatter, logger
from utils.machine import versions
from utils.plain_values import read_json

LOG_FILE, STATE_FILE, SETTINGS_FILE = "log.txt", "state.json", "config.yaml"
MAX_FAILED_SAVES = 3
RETRY_S = 2.0  # time between attempts to save at the end of a run


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Hold the lock file of a run, next to the run's folder. The system releases the lock when the process ends.

    Raise UserError if another process holds the lock.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    refusal = f"{folder}: another process is training this run. Wait for it, or choose another run.name."
    with locked(folder.with_name(f".{folder.name}.lock"), UserError(refusal)):
        yield


def prepare_folder(training: Training, damaged: Sequence[Path]) -> None:
    """Create the folder of a run, write its settings, and delete incomplete files that a killed process has left.

    damaged: Checkpoints of the run that could not be read. This function renames them.
    """
    folder = training.folder
    try:
        archived = None if training.continues else archive_run(folder)
        folder.mkdir(parents=True, exist_ok=True)
        remove_incomplete_files(folder)
        archive_damaged(list(damaged) if training.continues else [])
    except OSError as error:
        raise ConfigError(f"run.root, run.name: cannot create or write to {folder}: {error.strerror}") from error
    if archived:
        logger.info("the earlier run in %s was moved to %s", folder, archived)
    path = folder / SETTINGS_FILE
    try:  # if the disk fails, continue without this file: checkpoints hold the settings too
        with path_in_errors(path):
            path.write_text(config_to_yaml(training.config), encoding="utf-8")
    except OSError as error:
        logger.warning("not written: %s", error)


def archive_run(folder: Path) -> Path | None:
    """Rename the folder of an earlier run, so that a new run can use its name. Return the new path; None without a run.

    Raise FileExistsError if the folder holds files, but no run.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    if not any((folder / name).exists() for name in (SETTINGS_FILE, LOG_FILE, STATE_FILE)):
        raise FileExistsError(17, "it holds files that do not belong to a run", str(folder))
    return folder.rename(unused_name(folder))


def unused_name(path: Path, suffix: str = "") -> Path:
    """Return an unused path: `path` with the lowest possible number before its suffix."""
    stem = path.name.removesuffix(suffix)
    names = (path.with_name(f"{stem}.{number}{suffix}") for number in count(1))
    return next(name for name in names if not name.exists())


def archive_best(run_folder: Path) -> None:
    """Rename an earlier best.pt, so that a new best.pt does not overwrite the file."""
    path = run_folder / BEST
    if path.is_file():
        renamed = path.rename(unused_name(path, path.suffix))
        if manifest_path(path).is_file():
            manifest_path(path).rename(manifest_path(renamed))
        logger.info("the earlier %s was renamed to %s", BEST, renamed.name)


def check_space(training: Training) -> None:
    """Raise ConfigError if an unfinished run has no disk space for a checkpoint."""
    folder, n_bytes, free = training.folder, training.n_bytes, free_bytes(training.folder)
    is_finished = training.loop.step >= training.total_steps
    if training.world.is_main and not is_finished and free is not None and free < n_bytes:
        raise ConfigError(
            f"{folder}: a checkpoint takes about {size(n_bytes)}, and {size(free)} is free there. Free space, or set "
            "run.root to a folder on another disk."
        )


def free_bytes(folder: Path) -> int | None:
    """Return the free disk space at `folder` in bytes, or None if it is unknown. The folder need not exist."""
    for place in (folder, *folder.absolute().parents):
        with suppress(OSError):
            disk = shutil.disk_usage(place)
            return disk.free if disk.total else None
    return None


def size(n_bytes: int) -> str:
    """Return a number of bytes as text, in MiB or GiB."""
    return f"{n_bytes / 2**30:.2f} GiB" if n_bytes >= 2**30 / 10 else f"{n_bytes / 2**20:.1f} MiB"


class CheckpointManager:
    """Writes the checkpoints of a run. All processes call each method, and the main process writes."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._n_failures = 0
        self._next_try = 0

    def save_if_due(self, step: int) -> None:
        """Save a checkpoint every checkpoint.every_steps steps. If the disk fails, continue and try again later."""
        every_steps = self._training.config.checkpoint.every_steps
        if step % every_steps and step != self._next_try:
            return
        self._next_try = step + max(1, every_steps // 10)
        self._n_failures += 1
        what_next = f"training continues and tries again at step {self._next_try}"
        if self._try_to_save(step, is_last_try=self._n_failures == MAX_FAILED_SAVES, what_next=what_next):
            self._n_failures = self._next_try = 0

    def save_with_retries(self, step: int) -> None:
        """Save a checkpoint at the end, unless this step is already saved. If the disk fails, try three times."""
        for attempt in range(1, MAX_FAILED_SAVES + 1):
            if step == self._training.saved_step:
                return
            if not self._try_to_save(step, is_last_try=attempt == MAX_FAILED_SAVES, what_next="trying again"):
                time.sleep(RETRY_S)

    def save_best(self, figures: Mapping[str, float]) -> None:
        """Save best.pt if the figures of a validation are the best so far. Only the main process calls this.

        Before the validation, all processes must have estimated the batch norm statistics of the averaged networks.
        """
        training, best = self._training, self._training.best
        reached = best.improved_by(figures)
        if reached is None:
            return
        before, best.value = best.value, reached
        path = training.folder / BEST
        try:
            if before is None:
                archive_best(training.folder)
            save_checkpoint(path, training.state_dict([training.process_state()]))
        except OSError as error:
            best.value = before
            logger.warning("%s not saved: %s", BEST, error)
            return
        logger.info("best so far: %s %.4f, saved %s", best.figure, figures[best.figure], path)

    def _try_to_save(self, step: int, *, is_last_try: bool, what_next: str) -> bool:
        """Try to save. All processes return whether this succeeded. Raise OSError if the last try fails."""
        training, failure = self._training, None
        training.estimate_statistics()
        processes = training.world.gather(training.process_state())
        if training.world.is_main:
            path = checkpoint_path(training.folder, step)
            try:
                save_checkpoint(path, training.state_dict(processes))
                logger.info("saved %s", path)
            except OSError as error:
                failure = error
        if not training.world.all_reduce_max(int(failure is not None)):
            training.saved_step = step
            try:
                if training.world.is_main:
                    remove_old_checkpoints(training.folder, training.config.checkpoint.keep)
            except OSError as error:
                logger.warning("an old checkpoint was not deleted: %s", error)
            return True
        if failure and is_last_try:
            raise failure
        if failure:
            logger.warning("not saved: %s, a checkpoint takes about %s; %s", failure, size(training.n_bytes), what_next)
        return False


State = Literal["running", "finished", "stopped", "lost", "failed"]


class Session(Sink):
    """Writes log.txt and state.json for one start of a run. It collects messages until the run's folder exists.

    step: Latest step. Before training begins, the step of the run's latest checkpoint.
    end_reason: Why a run without errors ended before its last step.
    has_begun: Whether training has begun.
    """

    place = STATE_FILE

    def __init__(self, folder: Path) -> None:
        self.step = latest_step(folder)
        self.end_reason: str | None = None
        self.has_begun = False
        self._descriptor: int | None = None
        self._folder = folder
        self._stack = ExitStack()
        previous = read_state(folder)
        known = {key: value for key, value in previous.items() if key == "registered_losses"}
        self._losses = known if previous else registered_record()
        self._file = logging.FileHandler(folder / LOG_FILE, encoding="utf-8", delay=True)
        self._file.setFormatter(LineFormatter("%(asctime)s %(message)s", datefmt="%Y-%m-%d %H:%M:%S"))
        self._messages = MemoryHandler(sys.maxsize, flushLevel=sys.maxsize, target=self._file, flushOnClose=False)
        self._log(versions())
        logger.addHandler(self._messages)

    def begin(self, step: int) -> None:
        """Begin at `step`, and write to the folder from now on."""
        self.step, self.has_begun, self._losses = step, True, registered_record()
        self._write_messages()
        self._write_state("running")
        with suppress(OSError):  # Windows cannot open folders, but does not delete folders with open files
            self._descriptor = os.open(self._folder, os.O_RDONLY)  # reserves the folder's inode number
            self._stack.callback(os.close, self._descriptor)

    def end_step(self) -> None:
        """Count the step. Raise UserError if the folder was removed, because a new one would lack earlier files."""
        folder, descriptor = self._folder, self._descriptor
        if descriptor is not None and not (folder.is_dir() and os.path.samestat(os.fstat(descriptor), folder.stat())):
            raise UserError(f"{folder}: the folder was removed while the run trained. Start the run again.")
        self.step += 1

    def progress(self, report: Progress) -> None:
        """Write the latest step to state.json."""
        self._write_state("running")

    def end(self, state: State, line: str | None, *, signal: str | None = None, reason: str | None = None) -> None:
        """Write how the session ended, and close the log.

        If a run fails before its folder exists, write nothing. If a signal stops a run before its folder exists, create
        the folder, so that job scripts find the state of the run.

        line: Last line of log.txt.
        signal: Name of the signal that stopped the run.
        reason: Why the run failed or ended early.
        """
        self._stack.close()
        if line:
            self._log(line)
        logger.removeHandler(self._messages)
        self._write_messages()
        self._messages.close()
        with suppress(OSError):  # the disk may be full
            self._file.close()
        if state in ("finished", "stopped") or self._folder.is_dir():
            self._write_state(state, signal, reason)

    def _log(self, text: str) -> None:
        """Add a line to log.txt, but not to the console."""
        line = " ".join(text.split())
        self._messages.handle(logger.makeRecord(logger.name, logging.INFO, "", 0, "%s", (line,), None))

    def _write_messages(self) -> None:
        """If the folder exists, write the collected messages, and write all later messages immediately."""
        if self._folder.is_dir():
            try:
                self._messages.flush()
            except OSError as error:
                self._messages.setTarget(logging.NullHandler())
                logger.warning("not written: %s", error)
            self._messages.capacity = 1

    def _write_state(self, state: State, signal: str | None = None, reason: str | None = None) -> None:
        record = {"state": state, "step": self.step, "signal": signal, "reason": reason, **self._losses}
        path, text = self._folder / STATE_FILE, json.dumps(record) + "\n"
        try:
            with replacing(path) as unfinished:
                unfinished.write_text(text, encoding="utf-8")
        except OSError as error:
            try:
                with path.open("r+", encoding="utf-8") as file:  # overwriting needs no free space
                    file.write(text)
                    file.truncate()
            except OSError:
                logger.warning("not written: %s", error)


@contextmanager
def recorded(folder: Path) -> Iterator[Session]:
    """Yield a `Session` for a run. On exit, write how the run ended, even if training never began."""
    session = Session(folder)
    try:
        yield session
    except Interrupted as error:
        session.end("stopped", str(error), signal=Signals(error.signal_number).name)
        raise
    except BaseException as error:
        reason = f"{type(error).__name__}: {error}"
        when = f"failed at step {session.step}" if session.has_begun else "not started"
        state: State = "lost" if is_of_a_lost_peer(error) else "failed"
        session.end(state, f"{when}: {reason}", reason=reason.partition("\n")[0])
        raise
    line = f"finished at step {session.step}" if session.has_begun else None
    session.end("finished", line, reason=session.end_reason)


def read_state(folder: Path) -> dict[str, Any]:
    """Return the content of state.json, or {} if the file cannot be read."""
    with suppress(OSError, ValueError):
        content = read_json((folder / STATE_FILE).read_text(encoding="utf-8"))
        return content if isinstance(content, dict) else {}
    return {}
