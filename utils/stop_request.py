"""Stopping a run from outside without losing a step."""

import signal
from types import FrameType, TracebackType
from typing import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):  # noqa: N818 - no error: the user wanted it
    """The run was asked to stop, and has saved itself."""

    def __init__(self, signal_number: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} and saved at step {step}")
        self.exit_code = 128 + signal_number


class StopRequest:
    """Remembers the first Ctrl-C or SIGTERM inside its context; a second one ends the process at once.

    signal_number: the signal that came, or None.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._remember) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._restore()

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self.signal_number = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
