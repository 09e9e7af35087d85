"""Under torchrun every process has a user's error; the first one on a machine prints it."""

import os
import sys
import time
from pathlib import Path

PATIENCE_S = 1.0  # with the process that has failed; torchrun ends this one soon after


def print_first(lines: list[str], *, is_consequence: bool = False) -> None:
    """Write lines to standard error, unless another process of this run on this machine has printed its error.

    An error that one process alone has is the first. torchrun ends the other processes as soon as one has ended, so
    each waits here until the lines of the first are written.

    is_consequence: the error only reports that another process has failed. It gives that one time to print its own, and
        never takes its place.
    """
    folder = _shared_folder()
    if folder is None:
        _write(lines)
        return
    from filelock import FileLock  # of several processes alone

    printed = folder / "error_printed"
    deadline = time.monotonic() + (PATIENCE_S if is_consequence else 0)
    while time.monotonic() < deadline and not printed.exists():
        time.sleep(0.01)
    try:
        with FileLock(printed.with_suffix(".lock")):
            if printed.exists():
                return
            _write(lines)
            if not is_consequence:
                printed.touch()
    except OSError:
        _write(lines)


def _shared_folder() -> Path | None:
    """Return the folder that torchrun makes for the processes of this start on this machine, None without one."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")  # FOLDER/attempt_N/LOCAL_RANK/error.json
    if not file or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return None
    folder = Path(file).parents[1]
    return folder if folder.is_dir() else None


def _write(lines: list[str]) -> None:
    sys.stderr.writelines(lines)
    sys.stderr.flush()
