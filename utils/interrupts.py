"""Signals that come while modules are imported, where an exception is lost or becomes another error of the module."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], object]

INTERRUPTED = "interrupted\n"
RETRY_S = 0.05


def deferred(handle: Handler) -> Handler:
    """Return a handler of signals that calls `handle` when no import is under way any more."""

    def handle_later(number: int, frame: FrameType | None) -> None:
        if not _is_importing(frame):
            handle(number, frame)
            return
        again = threading.Timer(RETRY_S, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    return handle_later


def leave_at_once(number: int, _frame: FrameType | None) -> None:
    """End the program at Ctrl-C, as a handler of signals: for the imports of its start, which take seconds."""
    os.write(2, INTERRUPTED.encode())
    os._exit(128 + number)


@contextmanager
def handling_ctrl_c(handle: Handler) -> Iterator[None]:
    """Handle Ctrl-C by `handle` within; not where a shell has it ignored for what runs in the background."""
    previous: Any = signal.getsignal(signal.SIGINT)
    if previous == signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _is_importing(frame: FrameType | None) -> bool:
    while frame and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None
