"""Signals, of which systems other than Linux and macOS have fewer."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def available(*names: str) -> tuple[signal.Signals, ...]:
    """Return those of the named signals that the system has."""
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


STOPPING = available("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")  # those that ask a run to stop


@contextmanager
def blocked(numbers: Sequence[signal.Signals]) -> Iterator[None]:
    """Hold signals back within, also from processes that are started there, until these call `ignore`."""
    mask = _change_mask("SIG_BLOCK", numbers)
    try:
        yield
    finally:
        _change_mask("SIG_SETMASK", mask)


def ignore(numbers: Sequence[signal.Signals]) -> None:
    """Ignore signals, those included that have been held back."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
    _change_mask("SIG_UNBLOCK", numbers)


def _change_mask(how: str, numbers: Any) -> Any:
    """Return the former mask of this thread; do nothing on a system that has none, as Windows."""
    if hasattr(signal, "pthread_sigmask"):
        return signal.pthread_sigmask(getattr(signal, how), numbers)
    return ()
