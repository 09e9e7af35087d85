"""The smaller entry points, one job each."""

import sys
from types import TracebackType


def _tell_briefly(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Ctrl-C while a tool still imports what it needs, which takes seconds, is no fault to be traced."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
    else:
        sys.__excepthook__(kind, error, traceback)


sys.excepthook = _tell_briefly
