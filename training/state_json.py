"""state.json of a run's folder: whether it is running, finished, stopped or failed, for scripts that restart it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import Literal

from training.run_state import LoopState
from utils.atomic_file import replacing
from utils.errors import Interrupted
from utils.log import logger

STATE_FILE = "state.json"

State = Literal["running", "finished", "stopped", "failed"]


@dataclass
class RunRecord:
    """The content of state.json. loop: how far the run has come; None before that is known."""

    loop: LoopState | None = None

    @property
    def step(self) -> int:
        """The latest step that was made."""
        return self.loop.step if self.loop else 0


@contextmanager
def recorded_state(run_folder: Path) -> Iterator[RunRecord]:
    """Write to state.json how the run within ended, whether it came to its loop or not.

    A signal that stops it before there is a folder makes one, so that a script restarts it.
    """
    record = RunRecord()
    try:
        yield record
    except Interrupted as error:
        write_state(run_folder, "stopped", record.step, signal=Signals(error.signal_number).name)
        raise
    except BaseException as error:
        if run_folder.is_dir():
            first_line = str(error).partition("\n")[0]
            write_state(run_folder, "failed", record.step, reason=f"{type(error).__name__}: {first_line}")
        raise
    write_state(run_folder, "finished", record.step)


def write_state(
    run_folder: Path, state: State, step: int, *, signal: str | None = None, reason: str | None = None
) -> None:
    """Write state.json, at any instant complete; a disk that fails costs the file, not the run.

    step: the latest one that was made. signal: the name of the one that stopped the run. reason: why it failed.
    """
    content = {"state": state, "step": step, "signal": signal, "reason": reason}
    try:
        with replacing(run_folder / STATE_FILE) as unfinished:
            unfinished.write_text(json.dumps(content) + "\n", encoding="utf-8")
    except OSError as error:
        logger.warning("%s not written: %s", STATE_FILE, error)
