"""The logger of the application."""

import logging
import sys
from typing import Any

from utils.text import printable

logger = logging.getLogger("pairgan")


class LineFormatter(logging.Formatter):
    """Escapes control characters, so that names of files can neither start a line nor control a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - a method of logging
        """Return the message in one line."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - a method of logging
        """Return the traceback."""
        return "\n".join(map(printable, super().formatException(ei).split("\n")))


def log_to_console(is_main: bool) -> None:
    """Print messages on standard output; processes other than the main one print warnings only."""
    logging.raiseExceptions = False  # a closed pipe, for example by `| head`, is no error
    logger.handlers.clear()
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(LineFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if is_main else logging.WARNING)
