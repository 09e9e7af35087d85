"""The smaller entry points, one job each: python -m tools.NAME."""

import sys
from types import TracebackType


def _report_interrupt(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Print one line for Ctrl-C while a tool imports its modules, which takes seconds; tracebacks for the rest."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
    else:
        sys.__excepthook__(kind, error, traceback)


sys.excepthook = _report_interrupt
