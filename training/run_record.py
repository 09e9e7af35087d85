"""The records of how a run goes and ends: log.txt for people, state.json and lines of JSON for programs."""

import json
import logging
import os
import platform
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from logging.handlers import MemoryHandler
from pathlib import Path
from signal import Signals
from typing import Any, Literal

import torch

from losses import registered_record
from training.run_data import LoopState
from utils.atomic_file import replacing
from utils.checkpoint_folder import latest_step
from utils.distributed import is_of_a_lost_peer
from utils.errors import Interrupted
from utils.log import LineFormatter, logger
from utils.run_figures import read_rows
from utils.strict_json import read_json, strict_json

LOG_FILE, STATE_FILE = "log.txt", "state.json"

State = Literal["running", "finished", "stopped", "lost", "failed"]


class RunRecord:
    """log.txt of a run's folder: the messages of all its sessions, each with its time.

    loop: how far the run has come; None before that is known.
    losses: Weights of the registered losses that the run in the folder was trained with. None while it trains: the
        losses that are registered now.
    end_reason: why a run that is finished ended before its last step.
    is_open: whether messages go to the file as they come. Before, they are collected, since a new run has no folder.
    """

    def __init__(self, folder: Path) -> None:
        self.loop: LoopState | None = None
        self.losses: Mapping[str, float] | None = recorded_losses(read_state(folder))
        self.end_reason: str | None = None
        self.is_open = False
        self._folder = folder
        self._file = logging.FileHandler(folder / LOG_FILE, encoding="utf-8", delay=True)
        self._file.setFormatter(LineFormatter("%(asctime)s %(message)s", datefmt="%Y-%m-%d %H:%M:%S"))
        self._messages = MemoryHandler(sys.maxsize, flushLevel=sys.maxsize, target=self._file, flushOnClose=False)
        self.write(versions())
        logger.addHandler(self._messages)

    @property
    def step(self) -> int:
        """The latest step of the run."""
        return self.loop.step if self.loop else latest_step(self._folder)

    def open(self) -> None:
        """Write to the file what was collected, and from now on each message; without effect where no folder is."""
        if self._folder.is_dir():
            try:
                self._messages.flush()
            except OSError as error:
                self._messages.setTarget(logging.NullHandler())
                logger.warning("not written: %s", error)
            self._messages.capacity = 1
            self.is_open = True

    def write(self, text: str) -> None:
        """Write a line to the file, and not to the console."""
        line = " ".join(text.split())
        self._messages.handle(logger.makeRecord(logger.name, logging.INFO, "", 0, "%s", (line,), None))

    def close(self) -> None:
        """Write what is left, and close the file."""
        logger.removeHandler(self._messages)
        self.open()
        self._messages.close()
        with suppress(OSError):  # a full disk
            self._file.close()


@contextmanager
def recorded(folder: Path) -> Iterator[RunRecord]:
    """Record how the run within the context ends, also where it ends before its loop.

    A signal before there is a folder makes one, so that a script restarts the run.
    """
    record = RunRecord(folder)
    try:
        yield record
    except BaseException as error:
        reason, is_stopped = f"{type(error).__name__}: {error}", isinstance(error, Interrupted)
        when = f"failed at step {record.step}" if record.is_open else "not started"
        record.write(str(error) if is_stopped else f"{when}: {reason}")
        record.close()
        if isinstance(error, Interrupted):
            name = Signals(error.signal_number).name
            write_state(folder, "stopped", record.step, signal=name, losses=record.losses)
        elif folder.is_dir():
            state: State = "lost" if is_of_a_lost_peer(error) else "failed"
            write_state(folder, state, record.step, reason=reason.partition("\n")[0], losses=record.losses)
        raise
    if record.is_open:
        record.write(f"finished at step {record.step}")
    record.close()
    write_state(folder, "finished", record.step, reason=record.end_reason, losses=record.losses)


def recorded_losses(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the weights of registered losses that a checkpoint or state.json holds; none if they are damaged."""
    weights = record.get("registered_losses")
    if not isinstance(weights, dict):
        return {}
    return {name: weight for name, weight in weights.items() if isinstance(name, str) and isinstance(weight, float)}


def read_state(folder: Path) -> dict[str, Any]:
    """Return the content of state.json; an empty one if it cannot be read."""
    with suppress(OSError, ValueError):
        content = read_json((folder / STATE_FILE).read_text(encoding="utf-8"))
        return content if isinstance(content, dict) else {}
    return {}


def write_state(
    folder: Path,
    state: State,
    step: int,
    *,
    signal: str | None = None,
    reason: str | None = None,
    losses: Mapping[str, float] | None = None,
) -> None:
    """Write state.json, which is complete at any time. If the disk fails, only this file is lost.

    step: Latest step that was made. signal: Name of the signal that stopped the run.
    reason: Why it failed, or ended early.
    losses: Weights of the registered losses, which are no settings; None for the losses that are registered now.
    """
    path = folder / STATE_FILE
    weights = registered_record() if losses is None else {"registered_losses": losses} if losses else {}
    record = {"state": state, "step": step, "signal": signal, "reason": reason, **weights}
    text = json.dumps(record) + "\n"
    try:
        with replacing(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    except OSError as error:
        try:
            with path.open("r+", encoding="utf-8") as file:  # on a full disk, the present file still has its space
                file.write(text)
                file.truncate()
        except OSError:
            logger.warning("%s not written: %s", STATE_FILE, error)


class JsonLines:
    """Appends records with their step to a file.

    First it removes damaged lines and the records of `first_step` and later, which an interrupted run left. Numbers
    that are not finite become null. A disk that fails costs records, not the run.
    """

    def __init__(self, path: Path, first_step: int) -> None:
        self._path = path
        self._begin = ""
        with self._forgiving_disk():
            path.parent.mkdir(parents=True, exist_ok=True)
            content = "".join(_line(row) for row in read_rows(path) if row["step"] < first_step).encode()
            if path.is_file() and path.read_bytes() != content:
                with replacing(path) as unfinished:
                    unfinished.write_bytes(content)

    def append(self, step: int, record: Mapping[str, Any]) -> None:
        """Write one record."""
        with self._forgiving_disk():
            with self._path.open("a", encoding="utf-8") as file:
                file.write(self._begin + _line({"step": step, **record}))
            self._begin = ""

    @contextmanager
    def _forgiving_disk(self) -> Iterator[None]:
        """Turn the first failure of a disk into a warning."""
        try:
            yield
        except OSError as error:
            if not self._begin:
                logger.warning("%s: %s: records are missing there", self._path, error.strerror)
            self._begin = "\n"  # ends the line that may be incomplete


def _line(row: Mapping[str, Any]) -> str:
    return strict_json(row) + "\n"


_ROOT = Path(__file__).resolve().parents[1]


@cache
def versions() -> str:
    """Return the versions in one line, with the commit of the program where it runs from a git clone."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    commit = git_commit(_ROOT)
    program = f"{project['name']} {project['version']}" + (f" (commit {commit})" if commit else "")
    return f"{program}, Python {platform.python_version()}, torch {torch.__version__}"


def git_commit(folder: Path) -> str | None:
    """Return the commit of a git clone, with "-dirty" where files differ from it; None where there is no clone or git.

    Folders above are not searched: the commit of a clone around this one is that of something else.
    """
    if not (folder / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    quiet = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}  # git then writes nothing
    try:  # a file system may be slow
        result = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True, env=quiet)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip() or None
