"""One session of a run: its messages in log.txt, and its progress and end in state.json."""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from logging.handlers import MemoryHandler
from pathlib import Path
from signal import Signals
from typing import Any, Literal

from losses import registered_record
from training.report.sinks import Progress, Sink
from training.run_folder import LOG_FILE, STATE_FILE, watched
from utils.checkpoint_folder import latest_step
from utils.distributed import is_of_a_lost_peer
from utils.errors import Interrupted
from utils.files import replacing
from utils.log import LineFormatter, logger
from utils.machine import versions
from utils.plain_values import read_json

State = Literal["running", "finished", "stopped", "lost", "failed"]


class Session(Sink):
    """The record of one start of a run. It collects messages until the run begins, because a new run has no folder.

    step: Latest step. Before the run begins: the step of its latest checkpoint.
    end_reason: Why a finished run ended before its last step.
    has_begun: Whether training has begun.
    """

    place = STATE_FILE

    def __init__(self, folder: Path) -> None:
        self.step = latest_step(folder)
        self.end_reason: str | None = None
        self.has_begun = False
        self._check_folder: Callable[[], None] = lambda: None
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
        with suppress(OSError):  # a folder that cannot be opened is not watched
            self._check_folder = self._stack.enter_context(watched(self._folder))

    def end_step(self) -> None:
        """Count the step. Raise UserError if the folder was removed."""
        self._check_folder()
        self.step += 1

    def progress(self, report: Progress) -> None:
        """Write the latest step to state.json."""
        self._write_state("running")

    def end(self, state: State, line: str | None, *, signal: str | None = None, reason: str | None = None) -> None:
        """Write how the session ended, and close the log.

        If a run fails before its folder exists, no folder is made. A signal makes one, so that job scripts see an
        interrupted run.

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
        with suppress(OSError):  # a full disk
            self._file.close()
        if state in ("finished", "stopped") or self._folder.is_dir():
            self._write_state(state, signal, reason)

    def _log(self, text: str) -> None:
        """Add a line only to log.txt."""
        line = " ".join(text.split())
        self._messages.handle(logger.makeRecord(logger.name, logging.INFO, "", 0, "%s", (line,), None))

    def _write_messages(self) -> None:
        """If the folder exists, write the collected messages, and from then on each message at once."""
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
                with path.open("r+", encoding="utf-8") as file:  # a full disk still has the space of the present file
                    file.write(text)
                    file.truncate()
            except OSError:
                logger.warning("not written: %s", error)


@contextmanager
def recorded(folder: Path) -> Iterator[Session]:
    """Record how a run ends, also if it ends before its loop."""
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
    """Return the content of state.json. It is empty if the file cannot be read."""
    with suppress(OSError, ValueError):
        content = read_json((folder / STATE_FILE).read_text(encoding="utf-8"))
        return content if isinstance(content, dict) else {}
    return {}
