"""log.txt of a run's folder: the messages of all sessions of the run, each with its time."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from logging import LogRecord
from pathlib import Path

from utils.errors import Interrupted
from utils.log import logger

Write = Callable[[str], None]
"""Writes a line to the file, and not to the console."""


@contextmanager
def collected_messages(first_line: str, path: Path | None) -> Iterator[list[LogRecord]]:
    """Collect the messages within, after a first line for the file alone: until a run is built it has no folder.

    path: the log file of a run that was there before, which gets the messages and the error of a start that fails.
    """
    messages = [_record(first_line)]

    class Collector(logging.Handler):
        def emit(self, record: LogRecord) -> None:
            messages.append(record)

    handler = Collector()
    logger.addHandler(handler)
    try:
        yield messages
    except BaseException as error:
        if path and path.parent.is_dir():
            with log_file(path, messages) as write:
                write(str(error) if isinstance(error, Interrupted) else f"not started: {type(error).__name__}: {error}")
        raise
    finally:
        logger.removeHandler(handler)


@contextmanager
def log_file(path: Path | None, earlier: Sequence[LogRecord] = ()) -> Iterator[Write]:
    """Append `earlier` messages to a file, then those within; None writes no file."""
    if path is None:
        yield lambda _: None
        return
    handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%Y-%m-%d %H:%M:%S"))
    for record in earlier:
        handler.handle(record)
    logger.addHandler(handler)
    try:
        yield lambda text: handler.emit(_record(text))
    finally:
        logger.removeHandler(handler)
        with suppress(OSError):  # a full disk
            handler.close()


def _record(text: str) -> LogRecord:
    return logger.makeRecord(logger.name, logging.INFO, "", 0, "%s", (" ".join(text.split()),), None)
