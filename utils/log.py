"""The logger of the application."""

import logging
import sys

logger = logging.getLogger("pairgan")


def log_to_console(is_main: bool) -> None:
    """Print messages on standard output; processes other than the main one print warnings only."""
    logging.raiseExceptions = False  # a closed pipe, as of `| head`, is no error
    logger.handlers.clear()
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if is_main else logging.WARNING)
