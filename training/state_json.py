"""state.json of a run's folder: whether it is running, finished, stopped or failed, for scripts that restart it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import Literal

from training.loop_state import LoopState
from utils.atomic_file import replacing
from utils.checkpoint_folder import latest_step
from utils.errors import Interrupted
from utils.log import logger

STATE_FILE = "state.json"

State = Literal["running", "finished", "stopped", "failed"]


@dataclass
class RunRecord:
    """The content of state.json. loop: how far the run has come; None before that is known."""

    loop: LoopState | None = None


@contextmanager
def recorded_state(run_folder: Path) -> Iterator[RunRecord]:
    """Write to state.json how the run within ended, whether it came to its loop or not.

    A signal that stops it before there is a folder makes one, so that a script restarts it.
    """
    record = RunRecord()
    try:
        yield record
    except Interrupted as error:
        write_state(run_folder, "stopped", step_of(record, run_folder), signal=Signals(error.signal_number).name)
        raise
    except BaseException as error:
        if run_folder.is_dir():
            first_line = str(error).partition("\n")[0]
            reason = f"{type(error).__name__}: {first_line}"
            write_state(run_folder, "failed", step_of(record, run_folder), reason=reason)
        raise
    write_state(run_folder, "finished", step_of(record, run_folder))


def step_of(record: RunRecord, run_folder: Path) -> int:
    """Return the latest step that was made; before a run has got so far, that of its latest checkpoint."""
    if record.loop:
        return record.loop.step
    return latest_step(run_folder)


def write_state(
    run_folder: Path, state: State, step: int, *, signal: str | None = None, reason: str | None = None
) -> None:
    """Write state.json, at any instant complete; a disk that fails costs the file, not the run.

    step: the latest one that was made. signal: the name of the one that stopped the run. reason: why it failed.
    """
    path = run_folder / STATE_FILE
    text = json.dumps({"state": state, "step": step, "signal": signal, "reason": reason}) + "\n"
    try:
        with replacing(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    except OSError as error:
        try:
            with path.open("r+", encoding="utf-8") as file:  # which has its room on a disk that is full
                file.write(text)
                file.truncate()
        except OSError:
            logger.warning("%s not written: %s", STATE_FILE, error)
