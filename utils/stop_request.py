"""Stopping a run from outside without losing a step."""

import signal
import time
from types import FrameType, TracebackType
from typing import Self

SIGNALS = [signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name)]
ECHO_S = 2.0  # a terminal's Ctrl-C reaches a process of torchrun twice: from the terminal and from torchrun


class Interrupted(Exception):  # noqa: N818 - no error: the user wanted it
    """The run was asked to stop; what it had done is saved."""

    def __init__(self, signal_number: int, what_is_saved: str) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} {what_is_saved}")
        self.exit_code = 128 + signal_number


class StopRequest:
    """Remembers, inside its context, the first signal that asks to stop. A second Ctrl-C ends the process at once.

    signal_number: the signal that came, or None.
    """

    def __init__(self, *, has_launcher: bool = False) -> None:
        """has_launcher: torchrun started this process, and passes on what the terminal has sent already."""
        self.signal_number: int | None = None
        self._first_ctrl_c_s: float | None = None
        self._echo_s = ECHO_S if has_launcher else 0.0
        self._is_patient = False

    def __enter__(self) -> Self:
        wanted = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # nohup's stay ignored
        self._previous = {number: signal.signal(number, self._remember) for number in wanted}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def be_patient(self) -> None:
        """From now on a signal is only remembered; before, when there is nothing to save, it stops the run at once."""
        self._is_patient = True

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        if self.signal_number is None:
            self.signal_number = number
        if not self._is_patient:
            raise Interrupted(number, "before the first step; nothing was to be saved")
        if number != signal.SIGINT:
            return
        now_s = time.monotonic()
        if self._first_ctrl_c_s is None:
            self._first_ctrl_c_s = now_s
        elif now_s - self._first_ctrl_c_s >= self._echo_s:
            raise KeyboardInterrupt
