"""The logger of the application."""

import logging
import sys
from typing import Any

from utils.text import printable

logger = logging.getLogger("pairgan")


class LineFormatter(logging.Formatter):
    """Escapes control characters, because file names in messages could otherwise break lines or control a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - a method of logging
        """Return the message in one line."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - a method of logging
        """Return the traceback, with control characters escaped in each line."""
        return "\n".join(map(printable, super().formatException(ei).split("\n")))


def log_to_console(is_main: bool) -> None:
    """Print log messages to standard output. Processes other than the main process print only warnings and errors."""
    logging.raiseExceptions = False  # ignore a closed pipe, for example from `| head`
    logger.handlers.clear()
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(LineFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if is_main else logging.WARNING)
