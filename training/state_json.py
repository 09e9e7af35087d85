"""state.json of a run's folder: whether it is running, finished, stopped or failed, for scripts that restart it."""

import json
from pathlib import Path
from typing import Literal

from utils.atomic_file import replacing
from utils.log import logger

STATE_FILE = "state.json"

State = Literal["running", "finished", "stopped", "failed"]


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
